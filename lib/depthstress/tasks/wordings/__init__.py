"""How a procedure is put into words: one YAML file a family, read and checked here.

A file has sets of wordings: `standard`, one wording an opcode, as in the published run; `varied`, many wordings, the
standard one among them; and `held_out`, for evaluation, whose content words occur in neither of the others (the tests
see to that). A set has `frames` (the request around the steps; `item` is how a step is listed) and `steps` (the
wordings of each opcode). Slots: `{steps}` and the family's inputs in a frame, `{n}` and `{step}` in an item, `{a}` and
`{b}` (first and second operand) in a step.
"""

from __future__ import annotations

import random
import string
from functools import cache
from pathlib import Path

from pydantic import BaseModel, ConfigDict, ValidationError

from ...opcodes import OPCODES
from ...yaml import read_yaml
from ..families import FAMILIES

FOLDER = Path(__file__).parent
LEAST = {"standard": (1, 1), "varied": (8, 4), "held_out": (4, 2)}  # wordings of an opcode, frames for a combination of slots
SETS = tuple(LEAST)


class Frame(BaseModel):
    """A request around its steps, and how each step is listed."""

    model_config = ConfigDict(extra="forbid", frozen=True)
    text: str
    item: str = "{n}. {step}"


class Wording(BaseModel):
    """One set of a family's file."""

    model_config = ConfigDict(extra="forbid", frozen=True)
    frames: list[Frame]
    steps: dict[str, list[str]]

    def step(self, rng: random.Random, opcode: str, operands: tuple[str, ...]) -> str:
        """A wording of one operation."""
        return rng.choice(self.steps[opcode]).format(**dict(zip("ab", operands)))

    def request(self, rng: random.Random, slots: dict[str, str], steps: tuple[str, ...]) -> str:
        """The whole request: a frame that shows exactly the inputs in `slots`, around the steps."""
        frame = rng.choice([frame for frame in self.frames if slots_of(frame.text) == {*slots, "steps"}])
        items = "\n".join(frame.item.format(n=n, step=step) for n, step in enumerate(steps, 1))
        return frame.text.format(**slots, steps=items)


def load_wordings(family: str, wording: str, folder: Path = FOLDER) -> Wording:
    """One set of a family's wordings; the whole file is checked.

    Raises ValueError that names the file and the field for an unknown set, a missing or unknown slot, an opcode of
    another family, too few wordings or frames (`LEAST`), one that stands twice, one that is in `held_out` and in
    another set, or a standard one that `varied` lacks.
    """
    sets = _read(folder / f"{family}.yaml", family)
    if wording not in sets:
        raise ValueError(f"{family}.yaml: no set {wording!r}; it has {', '.join(sets)}")
    return sets[wording]


def slots_of(template: str) -> set[str]:
    """The names of a template's slots. Raises ValueError where its braces don't match."""
    return {name for _, name, _, _ in string.Formatter().parse(template) if name is not None}


@cache
def _read(path: Path, family: str) -> dict[str, Wording]:
    sets = {}
    for name, content in read_yaml(path).items():
        where = f"{path.name}: {name}"
        if name not in SETS:
            raise ValueError(f"{path.name}: unknown set {name!r}; there are {', '.join(SETS)}")
        try:
            sets[name] = Wording.model_validate(content, strict=True)
        except ValidationError as error:
            raise ValueError(f"{where}: {error}") from None
        wordings, frames = LEAST[name]
        _check_frames(f"{where}: frames", sets[name].frames, [{*slots, "steps"} for slots in FAMILIES[family].slots], frames)
        _check_steps(f"{where}: steps", sets[name].steps, FAMILIES[family].operations, wordings)
    _check_sets(path.name, sets)
    return sets


def _check_frames(where: str, frames: list[Frame], allowed: list[set[str]], least: int) -> None:
    for n, frame in enumerate(frames):
        _check_slots(f"{where}[{n}].text", frame.text, allowed)
        _check_slots(f"{where}[{n}].item", frame.item, [{"step"}, {"n", "step"}])
    for slots in allowed:
        found = sum(slots_of(frame.text) == slots for frame in frames)
        if found < least:
            raise ValueError(f"{where} has {found} with the slots {_listed(slots)}; it needs {least}")
    _check_unique(where, [frame.text for frame in frames])


def _check_steps(where: str, steps: dict[str, list[str]], operations: tuple[str, ...], least: int) -> None:
    if foreign := set(steps) - set(operations):
        raise ValueError(f"{where}.{min(foreign)} is no operation of this family; those are {', '.join(operations)}")
    for opcode in operations:
        wordings = steps.get(opcode, [])
        for n, text in enumerate(wordings):
            _check_slots(f"{where}.{opcode}[{n}]", text, [set("ab"[: len(OPCODES[opcode].operands)])])
        if len(wordings) < least:
            raise ValueError(f"{where}.{opcode} has {len(wordings)} wordings; it needs {least}")
    _check_unique(where, [text for wordings in steps.values() for text in wordings])


def _check_slots(where: str, template: str, allowed: list[set[str]]) -> None:
    if not template.strip():
        raise ValueError(f"{where} is empty")
    try:
        slots = slots_of(template)
    except ValueError as error:
        raise ValueError(f"{where}: {error}: {template!r}") from None
    if slots not in allowed:
        raise ValueError(f"{where} has the slots {_listed(slots)}, not {' or '.join(map(_listed, allowed))}: {template!r}")


def _check_unique(where: str, texts: list[str]) -> None:
    seen = set()
    for text in texts:
        if _plain(text) in seen:
            raise ValueError(f"{where} has {text!r} twice (case and final punctuation aside)")
        seen.add(_plain(text))


def _check_sets(where: str, sets: dict[str, Wording]) -> None:
    """What holds between the sets of a file: `varied` contains `standard`, `held_out` shares nothing with them."""
    if "standard" in sets and "varied" in sets:
        standard, varied = _fields(sets["standard"]), _fields(sets["varied"])
        for field, texts in standard.items():
            if missing := [text for text in texts if text not in varied[field]]:
                raise ValueError(f"{where}: varied: {field} lacks the standard {missing[0]!r}")
    if "held_out" in sets:
        training = {_plain(text): name for name in sets if name != "held_out" for texts in _fields(sets[name]).values() for text in texts}
        for field, texts in _fields(sets["held_out"]).items():
            if shared := [text for text in texts if _plain(text) in training]:
                raise ValueError(f"{where}: held_out: {field} has {shared[0]!r}, which is in {training[_plain(shared[0])]} too")


def _fields(worded: Wording) -> dict[str, list[str]]:
    return {"frames": [frame.text for frame in worded.frames], **{f"steps.{opcode}": texts for opcode, texts in worded.steps.items()}}


def _plain(text: str) -> str:
    return " ".join(text.casefold().split()).rstrip(" .!?")


def _listed(slots: set[str]) -> str:
    return ", ".join(f"{{{slot}}}" for slot in sorted(slots)) or "none"
