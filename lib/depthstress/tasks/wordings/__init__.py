"""How a procedure is put into words: one YAML file a family, read and checked here.

A file has sets (`standard`, `reworded`), each with `frames` (the request around the steps; `item` is how a
step is listed) and `steps` (the wordings of each opcode). Slots: `{steps}` and the family's inputs in a frame,
`{n}` and `{step}` in an item, `{a}` and `{b}` (first and second operand) in a step.
"""

from __future__ import annotations

import random
import string
from functools import cache
from pathlib import Path

from pydantic import BaseModel, ConfigDict, Field, ValidationError

from ...yaml import read_yaml

FOLDER = Path(__file__).parent
SETS = ("standard", "reworded")


class Frame(BaseModel):
    """A request around its steps, and how each step is listed."""

    model_config = ConfigDict(extra="forbid", frozen=True)
    text: str
    item: str = "{n}. {step}"


class Wording(BaseModel):
    """One set of a family's file."""

    model_config = ConfigDict(extra="forbid", frozen=True)
    frames: list[Frame] = Field(min_length=1)
    steps: dict[str, list[str]]

    def step(self, rng: random.Random, opcode: str, operands: tuple[str, ...]) -> str:
        """A wording of one operation."""
        return rng.choice(self.steps[opcode]).format(**dict(zip("ab", operands)))

    def request(self, rng: random.Random, slots: dict[str, str], steps: tuple[str, ...]) -> str:
        """The whole request: a frame that shows exactly the inputs in `slots`, around the steps."""
        frame = rng.choice([frame for frame in self.frames if slots_of(frame.text) == {*slots, "steps"}])
        items = "\n".join(frame.item.format(n=n, step=step) for n, step in enumerate(steps, 1))
        return frame.text.format(**slots, steps=items)


@cache
def load_wordings(family: str, wording: str, folder: Path = FOLDER) -> Wording:
    """One set of a family's wordings, checked.

    Raises ValueError that names the file and the field for a missing or unknown slot, an opcode without
    wordings, a duplicate wording or an unknown set.
    """
    path = folder / f"{family}.yaml"
    sets = read_yaml(path)
    if wording not in sets:
        raise ValueError(f"{path.name}: no set {wording!r}; it has {', '.join(sets)}")
    try:
        worded = Wording.model_validate(sets[wording], strict=True)
    except ValidationError as error:
        raise ValueError(f"{path.name}: {wording}: {error}") from None
    _check(f"{path.name}: {wording}", worded, family)
    return worded


def slots_of(template: str) -> set[str]:
    """The names of a template's slots."""
    return {name for _, name, _, _ in string.Formatter().parse(template) if name is not None}


def _check(where: str, worded: Wording, family: str) -> None:
    from ...opcodes import OPCODES
    from ..families import FAMILIES

    allowed = [{*slots, "steps"} for slots in FAMILIES[family].slots]
    for n, frame in enumerate(worded.frames):
        if "steps" not in slots_of(frame.text):
            raise ValueError(f"{where}: frames[{n}] has no slot {{steps}}")
        if slots_of(frame.text) not in allowed:
            raise ValueError(
                f"{where}: frames[{n}] has slots {sorted(slots_of(frame.text))}, not {' or '.join(str(sorted(s)) for s in allowed)}"
            )
        if slots_of(frame.item) != {"n", "step"} and slots_of(frame.item) != {"step"}:
            raise ValueError(f"{where}: frames[{n}].item has slots {sorted(slots_of(frame.item))}, not ['step'] with or without ['n']")
    if missing := [slots for slots in allowed if slots not in [slots_of(frame.text) for frame in worded.frames]]:
        raise ValueError(f"{where}: no frame with the slots {sorted(missing[0])}")
    for opcode in FAMILIES[family].operations:
        if not worded.steps.get(opcode):
            raise ValueError(f"{where}: steps has no wording for {opcode}")
    for opcode, wordings in worded.steps.items():
        expected = set("ab"[: len(OPCODES[opcode].operands)])
        for n, text in enumerate(wordings):
            if slots_of(text) != expected:
                raise ValueError(f"{where}: steps.{opcode}[{n}] has slots {sorted(slots_of(text))}, not {sorted(expected)}: {text!r}")
    every = [text for wordings in worded.steps.values() for text in wordings]
    if duplicates := {text for text in every if every.count(text) > 1}:
        raise ValueError(f"{where}: steps has duplicate wordings: {sorted(duplicates)}")
