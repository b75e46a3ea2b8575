"""What each unit is made from: when any of it changes, the unit is stale.

The data also depend on the code that makes them. Adapters and generations depend on every prompt and target,
which they hash, and on the settings; not on the training code's text, since an edit there would throw away hours.
"""

from __future__ import annotations

import random
from dataclasses import dataclass
from typing import TYPE_CHECKING

from .files import fingerprint, sources_sha256
from .units import MissingInput

if TYPE_CHECKING:
    from .arms import Arm
    from .runs import Run
    from .tasks.base import Example

TRAIN = "train"  # the training split of the suite's own `train`
WEIGHTS = "adapter_model.safetensors"
DATA = {"examples", "depths", "wording", "primitives"}  # of a training


def data_inputs(run: Run, seed: int) -> dict:
    """What the data of a seed is made from: everything of the suite that the examples depend on."""
    return {
        "code": sources_sha256("tasks", "opcodes.py", "interpreter.py"),
        "suite": run.suite.name,
        "seed": seed,
        "per_split": run.suite.evaluation.per_split,
        "splits": [split.model_dump() for split in run.suite.splits],
        "train": {name: training.model_dump(include=DATA) for name, training in run.suite.train_splits.items()},
    }


def training_examples(run: Run, arm: Arm, seed: int) -> list[Example]:
    """What an arm's adapter is trained on."""
    return run.examples(run.suite.train_split(arm.training), seed)


def training_rows(run: Run, arm: Arm, seed: int) -> list[tuple[str, str, str]]:
    """Example id, prompt and target of every training row of an arm's adapter; the targets change places where
    the training says `shuffled`."""
    rows = [(example.id, *row) for example in training_examples(run, arm, seed) for row in arm.written.rows(example)]
    if run.suite.training(arm.training).targets == "shuffled":
        targets = [target for _, _, target in rows]
        random.Random(f"shuffled/{seed}").shuffle(targets)
        rows = [(name, prompt, target) for (name, prompt, _), target in zip(rows, targets)]
    return rows


def adapter_inputs(run: Run, adapter: str, seed: int) -> dict:
    """What an adapter is made from: the model, the recipe, and every prompt and target."""
    arm = run.trained_as(adapter)
    return {
        "schema": 2,
        "model": run.model.model_dump(),
        "train": run.suite.training(arm.training).model_dump(exclude={"checkpoint_every"}),
        "adapter": adapter,
        "seed": seed,
        "rows": fingerprint(training_rows(run, arm, seed)),
    }


@dataclass(frozen=True)
class Prompt:
    """One task of one arm as the model sees it; `chat`: through the model's chat template."""

    example_id: str
    split: str
    text: str
    target: str
    chat: bool = False


def prompt_of(arm: Arm, example: Example, worked: list[Example]) -> str:
    """The whole prompt of a task; worked: the examples that an arm with `shots` shows. A stepwise arm shows parts of
    the prompt, one step at a time."""
    if arm.writer != "base":
        return arm.written.prompt(example)
    return arm.written.described(example.request, worked)


def prompts(run: Run, name: str, seed: int, limit: int | None = None) -> list[Prompt]:
    """The prompts of an arm's evaluation, split by split; at most `limit` a split."""
    arm = run.arm(name)
    worked = run.examples(TRAIN, seed)[: arm.shots]
    return [
        Prompt(example.id, split.name, prompt_of(arm, example, worked), arm.written.target(example), arm.writer == "base")
        for split in run.suite.splits
        for example in run.examples(split.name, seed)[:limit]
    ]


def generation_inputs(run: Run, name: str, seed: int) -> dict:
    """What an arm's generations are made from. Raises MissingInput where 02_train has not made its adapter.

    The adapter's weights may be gone (a clone has only what they were made from, and their hash): they are needed to
    generate, not to know what was generated with them.
    """
    arm, digest = run.arm(name), None
    if arm.adapter:
        unit = run.adapter(arm.adapter, seed)
        if problem := unit.problem(adapter_inputs(run, arm.adapter, seed), may_lack=[WEIGHTS]):
            raise no_adapter(run, name, seed, problem)
        digest = fingerprint(unit.marked())
    return {
        "schema": 2,
        "adapter": digest,
        "arm": arm.model_dump(exclude={"title"}),
        "model": run.model.model_dump() if arm.writer == "base" else None,
        "evaluation": run.suite.evaluation.model_dump(),
        "prompts": fingerprint([(prompt.text, prompt.target) for prompt in prompts(run, name, seed)]),
    }


def no_adapter(run: Run, name: str, seed: int, problem: str) -> MissingInput:
    """The error that an arm's adapter is not there."""
    where = run.shown(run.adapter(run.arm(name).adapter, seed).folder)
    return MissingInput(f"no adapter for {name}, seed {seed}: {where}: {problem}. Make it with:\n    {run.papermill('02_train')}")


def adapter_needed(run: Run, adapter: str, seed: int) -> bool:
    """Whether an adapter has to be trained: it is not whole, and neither is everything that the run generates with it."""
    unit, inputs = run.adapter(adapter, seed), adapter_inputs(run, adapter, seed)
    if unit.problem(inputs, may_lack=[WEIGHTS]):
        return True
    arms = [name for name in run.arms if run.arm(name).adapter == adapter]
    generated = all(run.generations(name, seed).is_done(generation_inputs(run, name, seed)) for name in arms)
    return not generated and not unit.is_done(inputs)
