"""Splits: examples drawn from the families, each from its own random stream.

Python's `random.Random`, seeded with a text, hashes it (SHA-512), so that the streams of neighbouring seeds
and indices have nothing in common; its draws are the same in every Python version that the project supports.
"""

from __future__ import annotations

import random

from ..interpreter import execute, parse
from .base import Example, Primitives, Procedure
from .families import FAMILIES
from .wordings import Wording, load_wordings

REDRAWS = 1_000  # of one example, before a split is called exhausted


def make_split(
    suite: str, split: str, seed: int, count: int, depths: list[int], wording: str, primitives: Primitives, taken: set[str]
) -> list[Example]:
    """`count` examples, the families in turn, then the depths in turn.

    taken: gold programs that may not occur again; those drawn here are added to it. A program in `taken`
    is drawn again from the stream's next attempt.
    Raises ValueError where a family can't reach a depth or runs out of new programs.
    """
    families = list(FAMILIES.values())
    examples = []
    for index in range(count):
        family = families[index % len(families)]
        depth = depths[index // len(families) % len(depths)]
        for attempt in range(REDRAWS):
            rng = random.Random(f"{suite}/{split}/{seed}/{index}/{attempt}")
            procedure = family.draw(rng, depth, primitives)
            if procedure.program not in taken:
                break
        else:
            raise ValueError(
                f"split {split}: family {family.name} has no new program of depth {depth} after {index} examples; ask for fewer"
            )
        taken.add(procedure.program)
        worded = load_wordings(family.name, wording)
        examples.append(_example(procedure, worded, rng, f"{split}-s{seed}-{index:05d}-{family.name}", split, seed, wording))
    return examples


def check_reach(depth: int, primitives: Primitives) -> None:
    """Raises ValueError where a family finds no procedure of this depth."""
    for family in FAMILIES.values():
        family.draw(random.Random(f"reach/{family.name}"), depth, primitives)


def droppable(example: Example) -> bool:
    """Whether some operation can be left out of the gold program with the same answer: a program that misses it scores."""
    program = parse(example.program)
    operations = range(len(program) - example.depth, len(program))
    return any(execute(program[:n] + program[n + 1 :]).value == example.answer for n in operations)


def _example(procedure: Procedure, worded: Wording, rng: random.Random, name: str, split: str, seed: int, wording: str) -> Example:
    steps = tuple(worded.step(rng, opcode, operands) for opcode, operands in procedure.operations)
    execution = execute(parse(procedure.program))
    assert execution.value is not None, f"{name}: the gold program fails: {execution.error}"
    return Example(
        id=name,
        family=name.rsplit("-", 1)[1],
        split=split,
        seed=seed,
        depth=len(steps),
        wording=wording,
        request=worded.request(rng, procedure.start.slots, steps),
        steps=steps,
        program=procedure.program,
        answer=execution.value,
        states=tuple(state or "" for state in execution.states),
    )
