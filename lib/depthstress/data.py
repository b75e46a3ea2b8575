"""The data stage: evaluation and training splits of a seed, with nothing shared between them."""

from __future__ import annotations

from collections import Counter

from .files import write_jsonl
from .inputs import TRAIN, data_inputs
from .runs import Run, example_row
from .tasks import droppable, make_split


def make_data(run: Run, seed: int) -> bool:
    """Make the data of a seed unless it is there; returns whether it had to be made.

    Evaluation is drawn first, so that it does not depend on how the adapters are trained; every training split
    then avoids the gold programs in it.
    """
    unit = run.data(seed)
    with unit.make(data_inputs(run, seed)) as work:
        if work:
            taken: set[str] = set()
            suite = run.suite
            for split in suite.splits:
                examples = make_split(
                    suite.name, split.name, seed, suite.evaluation.per_split, [split.depth], split.wording, split.primitives, taken
                )
                write_jsonl(unit.folder / f"{split.name}.jsonl", map(example_row, examples))
            for name, train in suite.train_splits.items():
                examples = make_split(suite.name, name, seed, train.examples, train.depths, train.wording, train.primitives, set(taken))
                write_jsonl(unit.folder / f"{name}.jsonl", map(example_row, examples))
    return work.needed


def data_table(run: Run, seed: int) -> list[dict]:
    """One row a split: its size, depth, wording, opcodes and the share of examples that need one that `train` never shows."""
    trained = {op for example in run.examples(TRAIN, seed) for op in example.operations}
    rows = []
    for name in [*run.suite.train_splits, *(split.name for split in run.suite.splits)]:
        examples = run.examples(name, seed)
        operations = Counter(op for example in examples for op in example.operations)
        rows.append(
            {
                "split": name,
                "examples": len(examples),
                "depth": ", ".join(map(str, sorted({example.depth for example in examples}))),
                "wording": examples[0].wording,
                "opcodes": len(operations),
                "with an untrained opcode": sum(not trained.issuperset(example.operations) for example in examples),
                "with a droppable step": sum(map(droppable, examples)),
            }
        )
    return rows
