"""What each unit is made from: when any of it changes, the unit is stale.

The data also depend on the code that makes them. Adapters and generations depend on every prompt and target,
which they hash, and on the settings; not on the training code's text, since an edit there would throw away hours.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from .files import fingerprint, sources_sha256
from .formats import ARMS
from .units import MissingInput

if TYPE_CHECKING:
    from .runs import Run

TRAIN = "train"


def data_inputs(run: Run, seed: int) -> dict:
    """What the data of a seed is made from: everything of the suite that the examples depend on."""
    train = run.suite.train
    return {
        "code": sources_sha256("tasks", "opcodes.py", "interpreter.py"),
        "suite": run.suite.name,
        "seed": seed,
        "per_split": run.suite.evaluation.per_split,
        "splits": [split.model_dump() for split in run.suite.splits],
        "train": train.model_dump(include={"examples", "depths", "wording", "primitives"}),
    }


def adapter_inputs(run: Run, arm: str, seed: int) -> dict:
    """What an adapter is made from: the model, the recipe, and every prompt and target."""
    rows = [[ARMS[arm].prompt(example), ARMS[arm].target(example)] for example in run.examples(TRAIN, seed)]
    return {
        "schema": 1,
        "model": run.model.model_dump(),
        "train": run.suite.train.model_dump(exclude={"checkpoint_every"}),
        "arm": arm,
        "seed": seed,
        "rows": fingerprint(rows),
    }


@dataclass(frozen=True)
class Prompt:
    """One task of one arm as the model sees it."""

    example_id: str
    split: str
    text: str


def prompts(run: Run, arm: str, seed: int, limit: int | None = None) -> list[Prompt]:
    """The prompts of an adapter's evaluation, split by split; at most `limit` a split."""
    return [
        Prompt(example.id, split.name, ARMS[arm].prompt(example))
        for split in run.suite.splits
        for example in run.examples(split.name, seed)[:limit]
    ]


def generation_inputs(run: Run, arm: str, seed: int) -> dict:
    """What an adapter's generations are made from. Raises MissingInput where 02_train has not made the adapter."""
    unit = run.adapter(arm, seed)
    if problem := unit.problem(adapter_inputs(run, arm, seed)):
        raise MissingInput(
            f"no adapter for {arm}, seed {seed}: {run.shown(unit.folder)}: {problem}. Make it with:\n    {run.papermill('02_train')}"
        )
    return {
        "schema": 1,
        "adapter": unit.digest(),
        "evaluation": run.suite.evaluation.model_dump(),
        "prompts": fingerprint([prompt.text for prompt in prompts(run, arm, seed)]),
    }
