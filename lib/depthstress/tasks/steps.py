"""One step of a procedure as a request of its own: what a step-by-step loop shows in place of the whole.

The frame is the standard one for the kind of the value that the step starts from; only the step's own
words are the request's. So a held-out wording meets a frame that training knows.
"""

from __future__ import annotations

from dataclasses import dataclass

from ..opcodes import OPCODES, Kind
from .base import Example
from .wordings import load_wordings, slots_of

SAMPLES = {Kind.TEXT: "sample", Kind.NUMBER: "10", Kind.DATE: "2026-01-01", Kind.LIST: "1 2 3 4"}
SAMPLE_PATH, SAMPLE_TABLE = "/srv/sample_10.txt", "alpha:1 beta:2 delta:3 gamma:4"
# whose frames show a slot: a list that was reduced is a number like any other, and a wrong step can leave any kind
OWNERS = {"text": "string", "path": "path", "number": "number", "date": "date", "list": "list"}
PUSHES = {Kind.TEXT: "PUSH_TEXT", Kind.NUMBER: "PUSH", Kind.DATE: "PUSH_DATE", Kind.LIST: "PUSH_LIST"}


@dataclass(frozen=True)
class Standing:
    """Where a procedure stands between two steps: the value on top of the stack as text, its kind (None: the
    stack is empty), and the table as TABLE takes it (None: there is none)."""

    value: str | None
    kind: Kind | None
    table: str | None = None

    @property
    def loads(self) -> tuple[str, ...]:
        """The instructions that bring an empty machine here."""
        table = (f"TABLE {self.table}",) if self.table is not None else ()
        return table + ((f"{PUSHES[self.kind]} {self.value}",) if self.kind else ())

    def sample(self, family: str) -> Standing:
        """The same kinds with values that stand for any other, so that a prompt says nothing but the kind."""
        value = SAMPLE_PATH if family == "path" and self.kind is Kind.TEXT else SAMPLES.get(self.kind)
        return Standing(value, self.kind, SAMPLE_TABLE if self.table is not None else None)


def start_of(example: Example) -> Standing:
    """Where an example's procedure stands before its first step."""
    lines = example.program.split("\n")[: -example.depth]
    table = next((line.removeprefix("TABLE ") for line in lines if line.startswith("TABLE ")), None)
    opcode, _, value = lines[-1].partition(" ")
    kind = OPCODES[opcode].leaves
    return Standing(value if kind else None, kind, table)


def step_request(family: str, standing: Standing, step: str) -> str:
    """The request for one step that starts from where the procedure stands."""
    slots = _slots(family, standing)
    owner = "table" if "table" in slots else OWNERS[next(iter(slots))]
    frame = next(frame for frame in load_wordings(owner, "standard").frames if slots_of(frame.text) == {*slots, "steps"})
    return frame.text.format(**slots, steps=frame.item.format(n=1, step=step))


def _slots(family: str, standing: Standing) -> dict[str, str]:
    slots = {}
    if standing.table is not None and standing.kind in (None, Kind.NUMBER):  # beside another value nothing could use it
        slots["table"] = ", ".join(" = ".join(pair.split(":")) for pair in standing.table.split())
    match standing.kind:
        case Kind.TEXT:
            slots["path" if family == "path" else "text"] = standing.value
        case Kind.LIST:
            slots["list"] = ", ".join(standing.value.split())
        case Kind.NUMBER | Kind.DATE:
            slots[standing.kind.value] = standing.value
    return slots
