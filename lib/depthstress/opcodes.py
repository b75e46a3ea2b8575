"""The one table of instructions: the interpreter, the reference card and the documentation come from it.

A program works on one stack of values and one table. A value is a text (`str`), a whole number (`int`), a
date (`datetime.date`) or a list of whole numbers (`tuple[int, ...]`). The set is that of the published run
("Qwen Trace Procedure Depth Stress", 2026-06-26), which names it the stack ABI.
"""

from __future__ import annotations

import datetime as dt
from collections.abc import Callable
from dataclasses import dataclass
from enum import StrEnum
from typing import Any

Value = str | int | dt.date | tuple[int, ...]


class Kind(StrEnum):
    """What a value on the stack is taken as."""

    TEXT = "text"
    NUMBER = "number"
    DATE = "date"
    LIST = "list"


class Operand(StrEnum):
    """What stands behind an opcode; the value is how the reference card writes it."""

    REST = "text..."
    NUMBER = "n"
    COUNT = "count"
    DATE = "YYYY-MM-DD"
    NUMBERS = "n..."
    PAIRS = "key:n..."
    KEY = "key"


@dataclass(frozen=True)
class Opcode:
    """One row of the table.

    `takes` lists the values popped from the stack, top last; `effect(table, *taken, *operands)` returns the
    value to push, or for `leaves=None` the new table. With `stack_form`, a missing last operand is taken
    from the stack instead. Effects may raise `KeyError` (missing key) and `OverflowError` (out of range).
    """

    name: str
    operands: tuple[Operand, ...]
    takes: tuple[Kind, ...]
    leaves: Kind | None
    effect: Callable[..., Any]
    help: str
    stack_form: bool = False

    @property
    def usage(self) -> str:
        """The instruction as the reference card shows it, e.g. `SLICE count count`."""
        return " ".join([self.name, *(f"[{o}]" if self.stack_form else str(o) for o in self.operands)])


def _last_component(path: str) -> str:
    return path.rsplit("/", 1)[-1]


def _dirname(path: str) -> str:
    folder, _, _ = path.rstrip("/").rpartition("/")
    return folder or "/"


def _extension(path: str) -> str:
    _, dot, extension = _last_component(path).rpartition(".")
    return extension if dot else ""


def _strip_extension(path: str) -> str:
    name = _last_component(path)
    stem, dot, _ = name.rpartition(".")
    return path[: len(path) - len(name)] + stem if dot else path


def _slice(text: str, first: int, last: int) -> str:
    return text[max(first, 1) - 1 : last]


def _add_days(date: dt.date, days: int) -> dt.date:
    return date + dt.timedelta(days=days)


_TEXT, _NUMBER, _DATE, _LIST = Kind.TEXT, Kind.NUMBER, Kind.DATE, Kind.LIST

_ROWS = (
    # what a procedure starts from
    Opcode("PUSH_TEXT", (Operand.REST,), (), _TEXT, lambda table, text: text, "push the rest of the line as text"),
    Opcode("PUSH", (Operand.NUMBER,), (), _NUMBER, lambda table, n: n, "push a whole number"),
    Opcode("PUSH_DATE", (Operand.DATE,), (), _DATE, lambda table, date: date, "push an ISO date"),
    Opcode("PUSH_LIST", (Operand.NUMBERS,), (), _LIST, lambda table, ns: ns, "push a list of whole numbers"),
    Opcode("TABLE", (Operand.PAIRS,), (), None, lambda table, pairs: pairs, "replace the table; nothing is pushed"),
    # text
    Opcode("STRIP_HYPHENS", (), (_TEXT,), _TEXT, lambda table, t: t.replace("-", ""), "remove every hyphen"),
    Opcode("REVERSE", (), (_TEXT,), _TEXT, lambda table, t: t[::-1], "reverse the characters"),
    Opcode("LOWER", (), (_TEXT,), _TEXT, lambda table, t: t.lower(), "to lower case"),
    Opcode("UPPER", (), (_TEXT,), _TEXT, lambda table, t: t.upper(), "to upper case"),
    Opcode("TAKE_PREFIX", (Operand.COUNT,), (_TEXT,), _TEXT, lambda table, t, n: t[:n], "keep the first characters"),
    Opcode("TAKE_SUFFIX", (Operand.COUNT,), (_TEXT,), _TEXT, lambda table, t, n: t[max(len(t) - n, 0) :], "keep the last characters"),
    Opcode(
        "SLICE",
        (Operand.COUNT, Operand.COUNT),
        (_TEXT,),
        _TEXT,
        lambda table, t, a, b: _slice(t, a, b),
        "keep the characters from one position to another, counted from 1, both included",
    ),
    # whole numbers
    Opcode(
        "ADD",
        (Operand.NUMBER,),
        (_NUMBER,),
        _NUMBER,
        lambda table, a, n: a + n,
        "add; without an operand, add the two top values",
        stack_form=True,
    ),
    Opcode("SUB", (Operand.NUMBER,), (_NUMBER,), _NUMBER, lambda table, a, n: a - n, "subtract"),
    Opcode(
        "MUL",
        (Operand.NUMBER,),
        (_NUMBER,),
        _NUMBER,
        lambda table, a, n: a * n,
        "multiply; without an operand, multiply the two top values",
        stack_form=True,
    ),
    # table
    Opcode("LOOKUP", (Operand.KEY,), (), _NUMBER, lambda table, key: table[key], "push the table's value for the key"),
    Opcode("ADD_LOOKUP", (Operand.KEY,), (_NUMBER,), _NUMBER, lambda table, a, key: a + table[key], "add the table's value for the key"),
    # dates
    Opcode("ADD_DAYS", (Operand.NUMBER,), (_DATE,), _DATE, lambda table, d, n: _add_days(d, n), "move a date by days"),
    Opcode("ADD_WEEKS", (Operand.NUMBER,), (_DATE,), _DATE, lambda table, d, n: _add_days(d, 7 * n), "move a date by weeks"),
    # lists
    Opcode("SUM", (), (_LIST,), _NUMBER, lambda table, ns: sum(ns), "the sum of the list"),
    Opcode("MAX", (), (_LIST,), _NUMBER, lambda table, ns: max(ns), "the largest of the list"),
    Opcode("MIN", (), (_LIST,), _NUMBER, lambda table, ns: min(ns), "the smallest of the list"),
    # paths
    Opcode("BASENAME", (), (_TEXT,), _TEXT, lambda table, p: _last_component(p.rstrip("/")), "the last component of a path"),
    Opcode("DIRNAME", (), (_TEXT,), _TEXT, lambda table, p: _dirname(p), "the path without its last component; / for a single one"),
    Opcode(
        "EXTENSION",
        (),
        (_TEXT,),
        _TEXT,
        lambda table, p: _extension(p),
        "what follows the last dot of the last component; empty without a dot",
    ),
    Opcode("STRIP_EXT", (), (_TEXT,), _TEXT, lambda table, p: _strip_extension(p), "the path without its extension; the folder stays"),
)

OPCODES: dict[str, Opcode] = {row.name: row for row in _ROWS}


def reference_card() -> str:
    """The instruction set as plain text, one line an opcode: usage, then help."""
    width = max(len(row.usage) for row in _ROWS)
    return "\n".join(f"{row.usage:<{width}}  {row.help}" for row in _ROWS)
