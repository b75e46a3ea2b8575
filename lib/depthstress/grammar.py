"""Grammars of what may be written, made from the one table of instructions; and programs drawn from them.

A grammar is GBNF text, which vLLM, llama.cpp, xgrammar and llguidance read as it is. It is typed: a rule for each kind of value
that can be on top of the stack (and whether a table is loaded), so that only an opcode that takes that kind can be written next.
All rules are right-linear, or not recursive: the language is regular. A line is bounded (not so a program), with room beyond every task
of the study, since a model that repeats itself would else never come to its end.

A program begins with what it starts from and goes on with operations on that one value. Left out on purpose: loading a second
value (PUSH and LOOKUP later on), and with it the forms of ADD and MUL without operand, which need two. No procedure of the study asks for
them, and a regular grammar can't count the values on the stack. Kinds are as declared: the interpreter also reads a
number as a text (UPPER on 7), or a text that looks like a number as one; neither can be written here.

What a grammar derives ends in a value or in one of the errors in `POSSIBLE`: a key that the table lacks, or a limit (a date out of
range; a number, text, list or program beyond the interpreter's bounds). To rule out every other error the grammar knows leap years, and a
text neither begins nor ends with a blank, nor holds a backtick, a control character or the word FINAL, all of which the
interpreter's reader takes for something else.
"""

from __future__ import annotations

import random
import re
import string
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from typing import Literal

from .gbnf import Chars, Either, Node, Repeat, Rule, Rules, draw, gbnf
from .interpreter import Reason, parse
from .opcodes import OPCODES, Kind, Opcode, Operand

POSSIBLE = frozenset({Reason.MISSING_KEY, Reason.LIMIT})
# at most, so that a line comes to its end: without a bound, a model that repeats itself never breaks the line
DIGITS = 9  # of a whole number
COUNT_DIGITS = 4  # of a count of characters
NUMBERS = 12  # of a list
PAIRS = 8  # of a table
KEY_CHARACTERS = 16
WORDS = 12  # of a text
WORD_UNITS = 48  # of a word, each a character or a begun FINAL

Line = Literal["bare", "numbered"]
Keys = Iterable[str] | None

# the formats that write programs: how their lines are, and whether an answer closes them
PROGRAM_LINES: dict[str, tuple[Line, bool]] = {
    "trace_stack_final": ("numbered", True),
    "trace_stack_no_final": ("numbered", False),
    "program_stack": ("bare", False),
}
GRAMMAR_FORMATS = ("answer_only", *PROGRAM_LINES)


def program_grammar(line: Line = "bare", final: bool = False, least: int = 0, most: int | None = None, keys: Keys = None) -> str:
    """The grammar of whole programs.

    line: "bare" instructions, or "numbered" as `STEP 1: ...`; the numbers count up where `most` is given, else each is any from 1 to 999.
    final: whether a line `FINAL <answer>` closes the program.
    least, most: how many operations (LOOKUP is one; to load a value or a table is none).
    keys: the only table keys that there are, e.g. those of the request; empty for none, and so no table. None: any in lower case.
    Raises ValueError for a line format, a number of operations or a key that can't be.
    """
    return gbnf(_program(line, final, least, most, _checked(keys), _State()))


def instruction_grammar(kind: Kind | None, table: bool, keys: Keys = None) -> str:
    """The grammar of one bare instruction that takes a value of this kind. None: nothing is on the stack, and so it loads
    something, or looks it up in a table that is loaded. Raises ValueError for a key that can't be."""
    keys = _checked(keys)
    options = tuple(Rule(_name(opcode)) for opcode in _derivable(kind, table, keys))
    return gbnf({"root": Either(options)} | _words(keys))


def answer_grammar() -> str:
    """The grammar of an answer alone, `FINAL: <answer>`."""
    return gbnf({"root": ("FINAL: ", Rule("answer"), "\n")} | _words(None))


def arm_grammar(arm: str, least: int = 0, most: int | None = None, keys: Keys = None) -> str:
    """The grammar of what a format of `formats.FORMATS` asks for; see `program_grammar`. Raises ValueError for another arm."""
    if arm not in GRAMMAR_FORMATS:
        raise ValueError(f"there is no grammar for arm {arm!r}")
    return program_grammar(*PROGRAM_LINES[arm], least, most, keys) if arm in PROGRAM_LINES else answer_grammar()


def random_program(rng: random.Random, operations: int, loads: Sequence[str] = (), keys: Keys = None) -> str:
    """A program of so many operations, a bare instruction a line, drawn from the grammar: at every step each opcode
    that takes the value on top is as likely as another; numbers are mostly short.

    loads: the instructions that it begins with, e.g. a gold program's (`PUSH 5`, or `TABLE a:1`, alone or with a value after it);
    without them they are drawn too. keys: as in `program_grammar`; by default those of a table in `loads`.
    Raises ValueError where a load can't come where it stands.
    """
    state = _State()
    for instruction in parse("\n".join(loads)):
        opcode = OPCODES.get(instruction.opcode)
        if opcode not in _derivable(state.kind, state.table, None) or _is_operation(opcode):
            raise ValueError(f"{str(instruction)!r} can't be loaded there")
        state = state.after(opcode)
        if keys is None and Operand.PAIRS in opcode.operands:
            keys = [word.partition(":")[0] for word in instruction.operands]
    rules = _program("bare", False, operations, operations, _checked(keys), replace(state, lines=0))
    return "".join(f"{line}\n" for line in loads) + draw(rng, rules)


# Which instruction can follow


@dataclass(frozen=True)
class _State:
    """Where a program stands: the kind on top of the stack, whether a table is loaded, lines and operations written so far.
    Counts that the grammar need not know stay at 0."""

    kind: Kind | None = None
    table: bool = False
    lines: int = 0
    operations: int = 0

    def after(self, opcode: Opcode) -> _State:
        table = self.table or opcode.leaves is None
        return _State(opcode.leaves or self.kind, table, self.lines + 1, self.operations + _is_operation(opcode))

    @property
    def name(self) -> str:
        """Its rule: what it is on, `keyed` with a table, then lines and operations where they count."""
        counts = [self.lines, self.operations] if self.lines or self.operations else []
        return "-".join(map(str, ["on", self.kind or "nothing", *["keyed"] * self.table, *counts]))


def _derivable(kind: Kind | None, table: bool, keys: tuple[str, ...] | None) -> list[Opcode]:
    """The opcodes that can be next where a value of this kind, or nothing, is on the stack."""
    keyed = [opcode for opcode in OPCODES.values() if Operand.KEY in opcode.operands]
    if kind is not None:
        return [opcode for opcode in OPCODES.values() if opcode.takes == (kind,) and (table or opcode not in keyed)]
    first = [opcode for opcode in OPCODES.values() if not opcode.takes]
    if not table:
        return [opcode for opcode in first if opcode not in keyed and (opcode.leaves is not None or keys != ())]
    useful = {kind for opcode in keyed for kind in opcode.takes}  # a table is there for what reads it
    return [opcode for opcode in first if opcode in keyed or opcode.leaves in useful]


def _is_operation(opcode: Opcode) -> bool:
    """Whether a depth counts it; to load a value or a table is no operation."""
    return bool(opcode.takes) or Operand.KEY in opcode.operands


def _program(line: str, final: bool, least: int, most: int | None, keys: tuple[str, ...] | None, start: _State) -> Rules:
    if line not in ("bare", "numbered"):
        raise ValueError(f"a line is bare or numbered, not {line!r}")
    if least < 0 or (most is not None and most < least):
        raise ValueError(f"a program can't have {least} to {most} operations")
    rules: Rules = {"root": Rule(start.name)}
    states = [start]
    for state in states:  # grows as states are reached
        number = str(state.lines + 1) if most is not None else Rule("step")
        prefix = ("STEP ", number, ": ") if line == "numbered" else ()
        options: list[Node] = []
        for opcodes, after in _successors(state, least, most, line == "numbered", keys):
            options.append((prefix, _any_of(rules, state, opcodes), Rule(after.name)))
            states += [] if after in states else [after]
        if state.kind is not None and state.operations >= least:
            options.append(("FINAL ", Rule("answer"), "\n") if final else "")
        rules[state.name] = Either(tuple(options))
    return rules | _words(keys)


def _successors(state: _State, least: int, most: int | None, numbered: bool, keys) -> list[tuple[list[Opcode], _State]]:
    """The opcodes that can be next, by whether they are operations and the state that they lead to."""
    groups: dict[tuple[bool, _State], list[Opcode]] = {}
    for opcode in _derivable(state.kind, state.table, keys):
        after = state.after(opcode)
        if most is not None and after.operations > most:
            continue
        counted = replace(
            after,
            lines=after.lines if numbered and most is not None else 0,
            operations=after.operations if most is not None else min(after.operations, least),
        )
        groups.setdefault((_is_operation(opcode), counted), []).append(opcode)
    return [(opcodes, after) for (_, after), opcodes in groups.items()]


def _any_of(rules: Rules, state: _State, opcodes: list[Opcode]) -> Rule:
    """A rule for any of the opcodes, shared by all states where the same can follow."""
    if len(opcodes) == 1:
        return Rule(_name(opcodes[0]))
    does = "take" if _is_operation(opcodes[0]) else "load"
    name = "-".join([does, state.kind or "nothing", *["keyed"] * state.table, "to", opcodes[0].leaves or "table"])
    rules[name] = Either(tuple(Rule(_name(opcode)) for opcode in opcodes))
    return Rule(name)


def _name(opcode: Opcode) -> str:
    return "do-" + opcode.name.lower().replace("_", "-")


# Words: instructions, operands, answers

_DIGIT, _NOT_ZERO = Chars("0-9", string.digits), Chars("1-9", "123456789")
_ANSWER = Chars("A-Za-z0-9_.:+/-", string.ascii_letters + string.digits + "_.:+/-")  # as interpreter.final_answers reads it


def _words(keys: tuple[str, ...] | None) -> Rules:
    """The rules that are the same in every state: an instruction with its line break, its operands, an answer."""
    rules: Rules = {}
    for opcode in OPCODES.values():
        operands = [part for operand in opcode.operands for part in (" ", Rule(operand.name.lower()))]
        rules[_name(opcode)] = (opcode.name, *operands, "\n")
    return rules | _text() | {
        "number": Either(("0", (Repeat("-", 0, 1), _NOT_ZERO, Repeat(_DIGIT, 0, DIGITS - 1)))),
        "count": Either(("0", (_NOT_ZERO, Repeat(_DIGIT, 0, COUNT_DIGITS - 1)))),
        "date": _date(),
        "numbers": (Rule("number"), Repeat((" ", Rule("number")), 0, NUMBERS - 1)),
        "pairs": (Rule("pair"), Repeat((" ", Rule("pair")), 0, PAIRS - 1)),
        "pair": (Rule("key"), ":", Rule("number")),
        "key": _key() if keys is None else Either(keys),
        "step": (_NOT_ZERO, Repeat(_DIGIT, 0, 2)),
        "answer": Repeat(_ANSWER, 1),
    }  # fmt: skip


def _key() -> Node:
    """An identifier in lower case: in upper case, `TABLE FINAL:1` would be read as an answer."""
    letters = string.ascii_lowercase + "_"
    return (Chars("a-z_", letters), Repeat(Chars("a-z0-9_", letters + string.digits), 0, KEY_CHARACTERS - 1))


def _checked(keys: Keys) -> tuple[str, ...] | None:
    if keys is None:
        return None
    keys = tuple(dict.fromkeys(keys))
    for key in keys:
        if not re.fullmatch(r"[A-Za-z0-9_.+/-]+", key) or "FINAL" in key:
            raise ValueError(f"{key!r} can't be a table key in a grammar: letters, digits and _.+/- can, without the word FINAL")
    return keys


def _text() -> Rules:
    """Words with blanks between, none with FINAL in it: `word` is the automaton that searches for it, as an expression."""
    blanks = r"\x00-\x20\x7f-\xa0`\u1680\u2000-\u200a\u2028\u2029\u202f\u205f\u3000"  # and controls, and the backtick
    drawn = string.ascii_letters + string.digits + "-_./,é"

    def other_than(letters: str) -> Chars:
        return Chars(f"^{blanks}{letters}", "".join(c for c in drawn if c not in letters))

    begun = ("F", Repeat(Either(("F", "IF", "INF", "INAF")), 0, 7))
    broken_off = Either((other_than("FI"), ("I", other_than("FN")), ("IN", other_than("FA")), ("INA", other_than("FL"))))
    mostly_first = (50, 1)
    return {
        "rest": (Rule("word"), Repeat((Repeat(" ", 1, 2), Rule("word")), 0, WORDS - 1)),
        "word": (Repeat(Rule("unit"), 0, WORD_UNITS - 1), Either((Rule("unit"), (begun, Either(("", "I", "IN", "INA")))), mostly_first)),
        "unit": Either((other_than("F"), (begun, broken_off)), mostly_first),
    }


def _date() -> Node:
    """The days of the years 1000 to 9999."""
    fourth = Either((("0", Chars("48", "48")), (Chars("2468", "2468"), Chars("048", "048")), (Chars("13579", "13579"), Chars("26", "26"))))
    leap = Either(((_NOT_ZERO, _DIGIT, fourth), (Either(fourth.options[1:]), "00")))
    to_28 = Either((("0", _NOT_ZERO), ("1", _DIGIT), ("2", Chars("0-8", "012345678"))))
    to_30 = Either((to_28, "29", "30"))
    long_month, short_month = Either(tuple("01 03 05 07 08 10 12".split())), Either(tuple("04 06 09 11".split()))
    day = Either(((long_month, "-", Either((to_30, "31"))), (short_month, "-", to_30), ("02-", to_28)))
    return Either(((_NOT_ZERO, _DIGIT, _DIGIT, _DIGIT, "-", day), (leap, "-02-29")), (50, 1))
