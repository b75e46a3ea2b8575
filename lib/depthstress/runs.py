"""A run: one suite on one model, and where its parts lie under `outputs/`."""

from __future__ import annotations

import os
from dataclasses import asdict
from pathlib import Path

from .arms import Arm
from .files import fingerprint, read_jsonl
from .inputs import data_inputs
from .suites import ROOT, Model, Suite, load_model, load_suite
from .tasks.base import Example
from .units import MissingInput, Unit

OUTPUTS = Path(os.environ.get("DEPTHSTRESS_OUTPUTS", ROOT / "outputs"))


class Run:
    """One suite on one model, in `outputs/<suite>` (or `outputs/<suite>-<model>` for another model than the
    suite's own). `arms` and `seeds` may be a part of the suite's: a shard of the same run."""

    def __init__(
        self,
        suite: str | Suite,
        model: str | Model | None = None,
        arms: list[str] | None = None,
        seeds: list[int] | None = None,
        outputs: Path | None = None,
    ) -> None:
        self.suite = load_suite(suite) if isinstance(suite, str) else suite
        self.model = model if isinstance(model, Model) else load_model(model or self.suite.model)
        self.arms = _part("arms", arms, self.suite.arm_names, self.suite.name)
        self.seeds = _part("seeds", seeds, self.suite.seeds, self.suite.name)
        self.name = run_name(self.suite.name, self.model.name, self.suite.model)
        self.folder = (outputs or OUTPUTS) / self.name
        self._checked: set[tuple[int, str]] = set()

    def data(self, seed: int) -> Unit:
        return Unit(self, f"data/s{seed}")

    def arm(self, name: str) -> Arm:
        return self.suite.arm(name)

    def adapter(self, adapter: str, seed: int) -> Unit:
        return Unit(self, f"adapters/{adapter}-s{seed}")

    def generations(self, arm: str, seed: int) -> Unit:
        return Unit(self, f"generations/{arm}-s{seed}")

    @property
    def analysis(self) -> Unit:
        return Unit(self, "analysis")

    @property
    def adapters(self) -> list[tuple[str, int]]:
        """Every adapter that this run or shard needs as (adapter, seed)."""
        names = dict.fromkeys(self.arm(arm).adapter for arm in self.arms)
        return [(name, seed) for name in names if name for seed in self.seeds]

    def trained_as(self, adapter: str) -> Arm:
        """An arm that uses the adapter: its format and training are the adapter's."""
        return next(arm for arm in self.suite.arms if arm.adapter == adapter)

    @property
    def evaluations(self) -> list[tuple[str, int]]:
        """Everything that is generated as (arm, seed)."""
        return [(arm, seed) for arm in self.arms for seed in self.seeds]

    @property
    def command(self) -> str:
        """What a papermill command line says to mean this run."""
        own = self.model.name == self.suite.model
        return f"-p suite {self.suite.name}" + ("" if own else f" -p model {self.model.name}")

    def examples(self, split: str, seed: int) -> list[Example]:
        """The examples of a split. Raises MissingInput where 01_data has not made them from the settings there are now."""
        unit, inputs = self.data(seed), data_inputs(self, seed)
        key = (seed, fingerprint(inputs))
        if key not in self._checked:
            if problem := unit.problem(inputs):
                where = f"no data for seed {seed}: {self.shown(unit.folder)}: {problem}"
                raise MissingInput(f"{where}. Make it with:\n    {self.papermill('01_data')}")
            self._checked.add(key)
        return read_examples(unit.folder / f"{split}.jsonl")

    def papermill(self, notebook: str) -> str:
        """The command that runs a notebook for this run."""
        return f"cd notebooks && papermill {notebook}.ipynb {self.command}"

    def shown(self, path: Path) -> str:
        """A path as messages and saved notebooks show it: relative to the outputs folder's parent."""
        return str(path.relative_to(self.folder.parent.parent))


def run_name(suite: str, model: str | None, suites_own: str | None = None) -> str:
    """The folder of a run under `outputs/`."""
    return suite if model in (None, suites_own) else f"{suite}-{model}"


def _part(field: str, asked: list | None, whole: list, suite: str) -> list:
    if asked is None:
        return list(whole)
    if unknown := [value for value in asked if value not in whole]:
        raise ValueError(f"{field}: suite {suite} has no {unknown}; it has {whole}")
    if not asked:
        raise ValueError(f"{field} is empty; leave it out for all of suite {suite}: {whole}")
    return [value for value in whole if value in asked]


def example_row(example: Example) -> dict:
    """An example as a row of its split's JSONL file."""
    return asdict(example)


def read_examples(path: Path) -> list[Example]:
    """The examples of a JSONL file, unchecked: `Run.examples` checks that they are those of the run."""
    return [Example(**{**row, "steps": tuple(row["steps"]), "states": tuple(row["states"])}) for row in read_jsonl(path)]
