"""What a family of procedures is, and how one procedure is drawn from it.

Every step of a procedure changes the value and leaves it non-empty, and the last leaves another value than the
first began with, so that a program without operations is never right. That does not make every step
necessary: UPPER before LOWER can be left out without a trace. `droppable` tells such tasks; their share is shown
with the data and among the report's limits.
"""

from __future__ import annotations

import random
from dataclasses import dataclass, field
from typing import ClassVar, Literal

from ..interpreter import as_text
from ..opcodes import OPCODES, Value

Primitives = Literal["published", "full"]
WordingSet = Literal["standard", "varied", "held_out"]
ATTEMPTS = 200  # to draw one procedure before the depth is called out of reach


@dataclass(frozen=True)
class Example:
    """One task: what is asked, the gold program and what it leaves.

    `program` has an instruction a line; `states` the value after each of them as text ("" while the stack
    is empty); `steps` the worded operations, one for each of the `depth` last instructions.
    """

    id: str
    family: str
    split: str
    seed: int
    depth: int
    wording: str
    request: str
    steps: tuple[str, ...]
    program: str
    answer: str
    states: tuple[str, ...]

    @property
    def operations(self) -> list[str]:
        """The opcodes of the program, the inputs' included."""
        return [line.split(" ", 1)[0] for line in self.program.split("\n")]


@dataclass(frozen=True)
class Start:
    """What a procedure starts from: the instructions that load it, what a request's frame shows of it, and
    the machine's state after them."""

    program: tuple[str, ...]
    slots: dict[str, str]
    value: Value | None = None
    table: dict[str, int] = field(default_factory=dict)


@dataclass(frozen=True)
class Procedure:
    """A start and its operations, each an opcode with its operands."""

    start: Start
    operations: tuple[tuple[str, tuple[str, ...]], ...]

    @property
    def program(self) -> str:
        """The gold program, one instruction a line."""
        return "\n".join([*self.start.program, *(" ".join([opcode, *operands]) for opcode, operands in self.operations)])


class Family:
    """Base of the families.

    operations: every opcode that an operation may be.
    published: those that a depth-1 task of the published run could be, and so its training data contain.
    slots: the sets of inputs that a request may show, one set for each kind of start.
    """

    name: ClassVar[str]
    operations: ClassVar[tuple[str, ...]]
    published: ClassVar[tuple[str, ...]]
    slots: ClassVar[tuple[frozenset[str], ...]]

    def allowed(self, primitives: Primitives) -> tuple[str, ...]:
        """The opcodes that a split with this setting is made of."""
        return self.published if primitives == "published" else self.operations

    def firsts(self, depth: int, allowed: tuple[str, ...]) -> tuple[str, ...]:
        """The opcodes that a procedure of this depth may begin with."""
        return allowed

    def start(self, rng: random.Random, first: str) -> Start:
        """Something that the opcode `first` can be applied to."""
        raise NotImplementedError

    def operands(self, rng: random.Random, opcode: str, value: Value | None, table: dict[str, int]) -> tuple[str, ...]:
        """Operands for the opcode where the machine stands at `value`; () where it takes none."""
        return ()

    def applies(self, opcode: str, value: Value | None) -> bool:
        """Whether a sensible request could ask for the opcode here."""
        return True

    def keeps(self, value: Value, last: bool) -> bool:
        """Whether a procedure may reach this value, as its last or with more steps to come."""
        return True

    def draw(self, rng: random.Random, depth: int, primitives: Primitives) -> Procedure:
        """Draw one procedure.

        Raises ValueError where the depth can't be reached with the opcodes allowed.
        """
        allowed = self.allowed(primitives)
        firsts = self.firsts(depth, allowed)
        for _ in range(ATTEMPTS):
            first = rng.choice(firsts)
            start = self.start(rng, first)
            operations = self._draw_operations(rng, start, first, allowed, depth)
            if operations is not None:
                return Procedure(start, operations)
        raise ValueError(f"family {self.name} finds no procedure of depth {depth} with the {primitives} primitives")

    def _draw_operations(self, rng, start: Start, first: str, allowed: tuple[str, ...], depth: int):
        value, operations = start.value, []
        for position in range(depth):
            options = [first] if position == 0 else rng.sample(allowed, len(allowed))
            for opcode in options:
                if not self.applies(opcode, value):
                    continue
                operands = self.operands(rng, opcode, value, start.table)
                after = _apply(opcode, operands, value, start.table)
                last = position == depth - 1
                if after != value and as_text(after) and self.keeps(after, last) and not (last and after == start.value):
                    break
            else:
                return None
            operations.append((opcode, operands))
            value = after
        return tuple(operations)


def _apply(opcode: str, operands: tuple[str, ...], value: Value | None, table: dict[str, int]) -> Value:
    row = OPCODES[opcode]
    read = [int(operand) if operand.lstrip("-").isdigit() else operand for operand in operands]
    return row.effect(table, *([value] if row.takes else []), *read)
