"""From text to a program, and from a program to a value: total, bounded, never `eval`.

Whatever the text, `parse` and `execute` return; what is wrong comes back as a typed error. Model output is
untrusted, so everything is bounded: the text read, the steps, the digits of a number, the length of a value.
"""

from __future__ import annotations

import datetime as dt
import re
from dataclasses import dataclass
from enum import StrEnum
from functools import cached_property, lru_cache

from .opcodes import OPCODES, Kind, Opcode, Operand, Value

MAX_CHARACTERS = 200_000  # of a text that is read as a program
MAX_STEPS = 1_000
MAX_DIGITS = 1_000  # Python itself refuses to print more than 4,300
MAX_LENGTH = 4_000  # of one text value, in characters; of a list or table, in items
REMEMBERED = 100  # characters: lines up to here recur over arms and tasks, and so are read once

# Possessive quantifiers (*+) never backtrack, so that no text takes more than linear time.
_STEP_PREFIX = re.compile(r"(?:STEP\s*+[0-9]++\s*+[:.)-]|[0-9]++\s*+[:.)]|[0-9]++\s++-)\s*+", re.IGNORECASE | re.ASCII)
_BARE_FINAL = re.compile(r"FINAL\s*+:?")
_SPACE = r"[^\S\n\r\v\f\x1c-\x1e\x85\u2028\u2029]*+"  # within a line, as str.splitlines sees lines
_FINAL = re.compile(rf"\bFINAL\b{_SPACE}:?+{_SPACE}([A-Za-z0-9_.:+/-]++)")
_WHOLE_NUMBER = re.compile(r"[+-]?[0-9]+")
_ISO_DATE = re.compile(r"[0-9]{4}-[0-9]{2}-[0-9]{2}")
_NOT_IN_NUMBER = re.compile(r"[^0-9-]")
_LINE_EDGES = "".join(c for c in map(chr, range(0x3001)) if c.isspace()) + "`"
_RESULT_EDGES = " \t\r\n\v\f`'\";,"


class Reason(StrEnum):
    """Why a program has no value."""

    UNKNOWN_OPCODE = "unknown_opcode"
    BAD_OPERAND = "bad_operand"
    WRONG_TYPE = "wrong_type"
    MISSING_KEY = "missing_key"
    EMPTY_STACK = "empty_stack"
    LIMIT = "limit"


@dataclass(frozen=True)
class Error:
    """What went wrong, at which step (from 0; the number of steps when the end is the problem)."""

    reason: Reason
    step: int
    detail: str

    def __str__(self) -> str:
        return f"{self.reason} at step {self.step + 1}: {self.detail}"


@dataclass(frozen=True, eq=False)
class Instruction:
    """An opcode in upper case and its operands; `rest` is the operands as they were written. Two are equal when
    opcode and operands are, whatever the white space between them."""

    opcode: str
    rest: str = ""

    def __eq__(self, other: object) -> bool:
        same = self is other or (isinstance(other, Instruction) and self.opcode == other.opcode)
        return same and (self.rest == other.rest or self.operands == other.operands)

    def __hash__(self) -> int:
        return hash((self.opcode, self.operands))

    @cached_property
    def operands(self) -> tuple[str, ...]:
        return tuple(self.rest.split())

    @cached_property
    def call(self) -> tuple[Opcode, tuple[Kind, ...], list]:
        """Its opcode, the kinds that it takes from the stack, and its operands read. Raises `_Stop` where one is wrong."""
        return _read_call(self, lenient=False)

    def __str__(self) -> str:
        return f"{self.opcode} {self.rest}".rstrip()


@dataclass(frozen=True)
class Execution:
    """The outcome of a program: its value as text, or the error; and the top of the stack after each step
    as text (None while the stack is empty), for as many steps as ran."""

    value: str | None
    error: Error | None
    states: tuple[str | None, ...]


class _Stop(Exception):
    def __init__(self, reason: Reason, detail: str) -> None:
        self.reason, self.detail = reason, detail


def parse(text: str) -> tuple[Instruction, ...]:
    """The instructions of a text, one a line.

    Outer white space and backticks go, then a step prefix (`STEP 3:`, `3.`, `3)`, `3 -`). Blank lines, lines
    that start with `#` and lines that carry a final answer (or a bare FINAL) are none. At most `MAX_STEPS + 1` come back, from
    the first `MAX_CHARACTERS` of the text: one more than can run, so that `execute` reports the limit.
    """
    program: list[Instruction] = []
    for line in text[:MAX_CHARACTERS].splitlines():
        instruction = _recurring_line(line) if len(line) <= REMEMBERED else _read_line(line)
        if instruction is not None:
            program.append(instruction)
            if len(program) > MAX_STEPS:
                break
    return tuple(program)


def _read_line(line: str) -> Instruction | None:
    line = line.strip(_LINE_EDGES)
    line = line[match.end() :] if (match := _STEP_PREFIX.match(line)) else line
    words = line.split(None, 1)
    if not words or line.startswith("#") or ("FINAL" in line and (_FINAL.search(line) or _BARE_FINAL.fullmatch(line))):
        return None
    return Instruction(words[0].rstrip(":").upper(), words[1] if len(words) > 1 else "")


@lru_cache(maxsize=1 << 15)
def _recurring_line(line: str) -> Instruction | None:
    """`_read_line`, with one object for an instruction however its line is numbered."""
    instruction = _read_line(line)
    return instruction and _shared(instruction.opcode, instruction.rest)


_shared = lru_cache(maxsize=1 << 15)(Instruction)


def final_answers(text: str) -> list[str]:
    """Every final answer in a text, in order: the word FINAL, an optional colon and space, one run of
    `A-Z a-z 0-9 _ . : + / -`. The first counts."""
    first = text.find("FINAL", 0, MAX_CHARACTERS)
    return _FINAL.findall(text[:MAX_CHARACTERS], first) if first >= 0 else []


def execute(program: tuple[Instruction, ...], lenient: bool = False) -> Execution:
    """Run a program; see `Execution`. `lenient` reads whole numbers as the published run did, dropping every
    character that is neither a digit nor a minus; it exists for that comparison alone."""
    stack: list[Value] = []
    table: dict[str, int] = {}
    states: list[str | None] = []
    top: Value | None = None
    for step, instruction in enumerate(program):
        try:
            if step >= MAX_STEPS:
                raise _Stop(Reason.LIMIT, f"more than {MAX_STEPS} steps")
            table = _run(instruction, stack, table, lenient)
        except _Stop as stop:
            return Execution(None, Error(stop.reason, step, stop.detail), tuple(states))
        if not stack:
            states.append(None)
        elif stack[-1] is top:  # untouched: the same text, not another copy of it
            states.append(states[-1])
        else:
            top = stack[-1]
            states.append(as_text(top))
    if not stack:
        return Execution(None, Error(Reason.EMPTY_STACK, len(program), "the program ends with an empty stack"), tuple(states))
    return Execution(states[-1].strip(_RESULT_EDGES), None, tuple(states))


def as_text(value: Value) -> str:
    """A value as a program's result is written; a list as numbers with spaces between."""
    return " ".join(map(str, value)) if isinstance(value, tuple) else str(value)


def _run(instruction: Instruction, stack: list[Value], table: dict[str, int], lenient: bool) -> dict[str, int]:
    """Apply an instruction to the stack, in place; returns the table that holds from now on. Raises `_Stop`."""
    opcode, takes, operands = _read_call(instruction, lenient) if lenient else instruction.call
    if len(stack) < len(takes):
        raise _Stop(Reason.EMPTY_STACK, f"{opcode.name} needs {len(takes)} on the stack, there are {len(stack)}")
    if takes:
        taken = stack[-len(takes) :]
        operands = [*map(_take_as, takes, taken, [lenient] * len(takes)), *operands]
    try:
        result = opcode.effect(table, *operands)
    except KeyError as error:
        raise _Stop(Reason.MISSING_KEY, _short(str(error.args[0]))) from None
    except OverflowError:
        raise _Stop(Reason.LIMIT, f"{opcode.name} leaves the range of dates") from None
    if opcode.leaves is None:
        return result
    stack[len(stack) - len(takes) :] = [_bounded(result)]
    return table


_TYPES = {Kind.TEXT: str, Kind.NUMBER: int, Kind.DATE: dt.date, Kind.LIST: tuple}


def _take_as(kind: Kind, value: Value, lenient: bool):
    """A value, read as the kind where it is of another type."""
    if isinstance(value, _TYPES[kind]):
        return value
    match kind:
        case Kind.TEXT:
            return as_text(value)
        case Kind.NUMBER if isinstance(value, str):
            return _number(value, Reason.WRONG_TYPE, lenient)
        case Kind.DATE:
            return _date(as_text(value), Reason.WRONG_TYPE)
    raise _Stop(Reason.WRONG_TYPE, f"{_short(as_text(value))!r} is no {kind}")


def _read_call(instruction: Instruction, lenient: bool) -> tuple[Opcode, tuple[Kind, ...], list]:
    """What an instruction is whatever the machine holds: its opcode, what it takes from the stack, its operands read."""
    opcode = OPCODES.get(instruction.opcode)
    if opcode is None:
        raise _Stop(Reason.UNKNOWN_OPCODE, _short(instruction.opcode))
    operands = _read_operands(opcode, instruction, lenient)
    return opcode, opcode.takes * 2 if opcode.stack_form and not operands else opcode.takes, operands


def _read_operands(opcode: Opcode, instruction: Instruction, lenient: bool) -> list:
    kinds, words = opcode.operands, instruction.operands
    if len(kinds) == 1 and kinds[0] in (Operand.REST, Operand.NUMBERS, Operand.PAIRS):
        return [_read(kinds[0], instruction.rest, lenient)]
    if opcode.stack_form and not words:
        return []
    if len(words) < len(kinds):  # words beyond the operands are passed over, as in the published run
        raise _Stop(Reason.BAD_OPERAND, f"{opcode.name} takes {len(kinds)} operand(s), not {len(words)}")
    return [_read(kind, word, lenient) for kind, word in zip(kinds, words)]


def _read(kind: Operand, text: str, lenient: bool):
    if not text:
        raise _Stop(Reason.BAD_OPERAND, f"nothing where {kind} is expected")
    match kind:
        case Operand.NUMBER:
            return _number(text, Reason.BAD_OPERAND, lenient)
        case Operand.COUNT:
            if (count := _number(text, Reason.BAD_OPERAND, lenient)) < 0:
                raise _Stop(Reason.BAD_OPERAND, f"{_short(text)} is negative")
            return count
        case Operand.DATE:
            return _date(text, Reason.BAD_OPERAND)
        case Operand.NUMBERS:
            return tuple(_number(word, Reason.BAD_OPERAND, lenient) for word in _bounded(tuple(text.split())))
        case Operand.PAIRS:
            pairs = (word.partition(":") for word in _bounded(tuple(text.split())))
            return {key: _number(value, Reason.BAD_OPERAND, lenient) for key, colon, value in pairs if colon}
    return _bounded(text)


def _number(text: str, reason: Reason, lenient: bool) -> int:
    if lenient:
        text = _NOT_IN_NUMBER.sub("", text)
    if not _WHOLE_NUMBER.fullmatch(text):
        raise _Stop(reason, f"{_short(text)!r} is no whole number")
    if len(text) > MAX_DIGITS:
        raise _Stop(Reason.LIMIT, f"a number of more than {MAX_DIGITS} digits")
    return int(text)


def _date(text: str, reason: Reason) -> dt.date:
    try:
        if _ISO_DATE.fullmatch(text):
            return dt.date.fromisoformat(text)
    except ValueError:
        pass
    raise _Stop(reason, f"{_short(text)!r} is no ISO date")


_TOO_LARGE = 10**MAX_DIGITS


def _bounded(value):
    if isinstance(value, int):
        if abs(value) >= _TOO_LARGE:
            raise _Stop(Reason.LIMIT, f"a number of more than {MAX_DIGITS} digits")
    elif isinstance(value, (str, tuple)) and len(value) > MAX_LENGTH:
        raise _Stop(Reason.LIMIT, f"a value longer than {MAX_LENGTH}")
    return value


def _short(text: str) -> str:
    return text if len(text) <= 40 else text[:39] + "…"
