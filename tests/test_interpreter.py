"""Reading and running programs: what the published instruction set says, and that nothing breaks it."""

import time

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from depthstress.interpreter import (
    MAX_CHARACTERS,
    MAX_DIGITS,
    MAX_LENGTH,
    MAX_STEPS,
    Instruction,
    Reason,
    execute,
    final_answers,
    parse,
)
from depthstress.opcodes import OPCODES

THOROUGH = settings(max_examples=10_000, deadline=None)


def value(text, **options):
    return execute(parse(text), **options).value


def reason(text, **options):
    error = execute(parse(text), **options).error
    return error and error.reason


@pytest.mark.parametrize(("program", "expected"), [
    ("PUSH_TEXT KC-3252-WF\nLOWER", "kc-3252-wf"),
    ("PUSH_TEXT a-b-c\nSTRIP_HYPHENS\nREVERSE\nUPPER", "CBA"),
    ("PUSH_TEXT two  words", "two  words"),
    ("PUSH_TEXT abcdef\nTAKE_PREFIX 2", "ab"),
    ("PUSH_TEXT abcdef\nTAKE_SUFFIX 2", "ef"),
    ("PUSH_TEXT abcdef\nTAKE_SUFFIX 9", "abcdef"),
    ("PUSH_TEXT abcdef\nSLICE 2 4", "bcd"),
    ("PUSH 5\nADD 3\nSUB 10\nMUL -2", "4"),
    ("PUSH 5\nPUSH 3\nADD", "8"),
    ("PUSH 5\nPUSH 3\nMUL", "15"),
    ("TABLE a:1 b:2 nothing\nLOOKUP b\nADD_LOOKUP a", "3"),
    ("TABLE a:1\nTABLE b:2\nLOOKUP b", "2"),
    ("PUSH_DATE 2026-02-27\nADD_DAYS 3\nADD_WEEKS 1", "2026-03-09"),
    ("PUSH_TEXT 2026-02-27\nADD_DAYS -27", "2026-01-31"),
    ("PUSH_LIST 3 9 -1\nMAX", "9"),
    ("PUSH_LIST 3 9 -1\nMIN", "-1"),
    ("PUSH_LIST 3 9 -1\nSUM\nUPPER", "11"),
    ("PUSH_LIST 3 9", "3 9"),
    ("PUSH_TEXT /a/b/c.tar.gz\nBASENAME", "c.tar.gz"),
    ("PUSH_TEXT /a/b/\nBASENAME", "b"),
    ("PUSH_TEXT /a/b/c.txt\nDIRNAME", "/a/b"),
    ("PUSH_TEXT /a/b/\nDIRNAME", "/a"),
    ("PUSH_TEXT single\nDIRNAME", "/"),
    ("PUSH_TEXT /\nDIRNAME", "/"),
    ("PUSH_TEXT /a.d/c\nEXTENSION", ""),
    ("PUSH_TEXT /a/c.tar.gz\nEXTENSION", "gz"),
    ("PUSH_TEXT /a.d/c.txt\nSTRIP_EXT", "/a.d/c"),
    ("PUSH_TEXT /a.d/c\nSTRIP_EXT", "/a.d/c"),
    ("PUSH_TEXT `'x\";,", "x"),
])  # fmt: skip
def test_every_opcode_does_what_the_table_says(program, expected):
    assert value(program) == expected


@pytest.mark.parametrize("line", [
    "STEP 3: PUSH 7", "step 3: push 7", "Step 3. PUSH 7", "3. PUSH 7", "3) PUSH 7", "3 - PUSH 7", "  `PUSH 7`  ", "PUSH: 7", "12: PUSH 7",
])  # fmt: skip
def test_step_prefixes_and_decoration_are_dropped(line):
    assert parse(line) == (Instruction("PUSH", "7"),)


def test_lines_that_are_no_instructions():
    assert parse("\n# a comment\nSTEP 1:\nFINAL: 7\nSTEP 2: FINAL 8\nFINAL\n   \nPUSH 1") == (Instruction("PUSH", "1"),)


@pytest.mark.parametrize(("program", "expected"), [
    ("", Reason.EMPTY_STACK),
    ("\x1f", Reason.EMPTY_STACK),
    ("TABLE a:1", Reason.EMPTY_STACK),
    ("LOWER", Reason.EMPTY_STACK),
    ("PUSH 1\nADD", Reason.EMPTY_STACK),
    ("FLIP", Reason.UNKNOWN_OPCODE),
    ("PUSH beta:6", Reason.BAD_OPERAND),
    ("PUSH 1.5", Reason.BAD_OPERAND),
    ("PUSH", Reason.BAD_OPERAND),
    ("PUSH ٣", Reason.BAD_OPERAND),
    ("PUSH_TEXT", Reason.BAD_OPERAND),
    ("TABLE a:x", Reason.BAD_OPERAND),
    ("PUSH_TEXT abc\nTAKE_PREFIX -1", Reason.BAD_OPERAND),
    ("PUSH_TEXT abc\nSLICE 1", Reason.BAD_OPERAND),
    ("PUSH_DATE 20260101", Reason.BAD_OPERAND),
    ("PUSH_DATE 2026-02-30", Reason.BAD_OPERAND),
    ("PUSH_DATE 0000-01-01", Reason.BAD_OPERAND),
    ("PUSH_TEXT abc\nADD 1", Reason.WRONG_TYPE),
    ("PUSH 3\nSUM", Reason.WRONG_TYPE),
    ("PUSH 3\nADD_DAYS 1", Reason.WRONG_TYPE),
    ("TABLE a:1\nLOOKUP b", Reason.MISSING_KEY),
    ("PUSH_DATE 9999-12-31\nADD_DAYS 1", Reason.LIMIT),
    ("PUSH_DATE 2026-01-01\nADD_DAYS -" + "9" * 900, Reason.LIMIT),
    ("PUSH 1" + "0" * MAX_DIGITS, Reason.LIMIT),
    ("PUSH 9" + "9" * (MAX_DIGITS - 2) + "\nMUL 99", Reason.LIMIT),
    ("PUSH_TEXT " + "x" * (MAX_LENGTH + 1), Reason.LIMIT),
    ("PUSH_LIST" + " 1" * (MAX_LENGTH + 1), Reason.LIMIT),
    ("PUSH 1\n" * (MAX_STEPS + 1), Reason.LIMIT),
])  # fmt: skip
def test_errors_are_typed(program, expected):
    assert reason(program) == expected


def test_an_error_says_at_which_step_and_keeps_the_values_before_it():
    execution = execute(parse("PUSH 5\nADD 3\nFLIP\nADD 1"))
    assert execution.states == ("5", "8")
    assert execution.error.step == 2
    assert str(execution.error) == "unknown_opcode at step 3: FLIP"


def test_states_are_the_top_after_each_step():
    assert execute(parse("TABLE a:1\nLOOKUP a\nADD 1")).states == (None, "1", "2")


def test_instructions_are_equal_by_opcode_and_operands():
    assert parse("SLICE  1   3") == parse("slice 1 3")
    assert len({*parse("ADD 1"), *parse("ADD  1"), *parse("ADD 2")}) == 2


def test_a_word_that_begins_with_final_is_an_instruction():
    assert reason("PUSH 3\nFINALIZE") == Reason.UNKNOWN_OPCODE


def test_only_the_lenient_reader_drops_characters_from_numbers():
    assert value("PUSH beta:6\nMUL 5", lenient=True) == "30"
    assert reason("PUSH beta:6\nMUL 5") == Reason.BAD_OPERAND
    assert reason("PUSH beta", lenient=True) == Reason.BAD_OPERAND


@pytest.mark.parametrize(("text", "expected"), [
    ("FINAL: 7", ["7"]),
    ("STEP 4: FINAL 007", ["007"]),
    ("FINAL /a/b.txt and more", ["/a/b.txt"]),
    ("FINAL:kc-1\nFINAL 2", ["kc-1", "2"]),
    ("FINAL\n7", []),
    ("FINAL", []),
    ("FINAL:", []),
    ("FINAL :", []),
    ("FINAL:\r42", []),
    ("FINAL\u2028" "42", []),
    ("FINALLY done", []),
    ("FINAL_ANSWER 42", []),
    ("final 7", []),
    ("SEMIFINAL 7", []),
    ("", []),
])  # fmt: skip
def test_final_answers(text, expected):
    assert final_answers(text) == expected


OPCODE_LINES = st.builds(
    lambda opcode, operands: f"{opcode} {operands}",
    st.sampled_from([*OPCODES, "FLIP", "STEP 1:", "FINAL"]),
    st.one_of(st.integers().map(str), st.text(max_size=12), st.lists(st.integers(-99, 99).map(str), max_size=4).map(" ".join),
              st.dates().map(str), st.sampled_from(["a:1 b:2", "a", "2 4", "/x/y.z", "9" * 999, ""])),
)  # fmt: skip
PROGRAMS = st.lists(OPCODE_LINES, max_size=12).map("\n".join)


@THOROUGH
@given(st.one_of(PROGRAMS, st.text(max_size=300)), st.booleans())
def test_execution_is_total(text, lenient):
    program = parse(text)
    execution = execute(program, lenient)
    assert (execution.value is None) == (execution.error is not None)
    assert len(execution.states) <= len(program)
    assert execution == execute(program, lenient)
    for state in execution.states:
        assert state is None or len(state) <= 12 * MAX_LENGTH


@THOROUGH
@given(st.text(max_size=400))
def test_parsing_is_total_and_stable(text):
    program = parse(text)
    assert program == parse(text)
    assert all(i.rest == i.rest.strip() and not i.opcode.isspace() for i in program)
    assert all(isinstance(answer, str) and answer for answer in final_answers(text))


@THOROUGH
@given(PROGRAMS)
def test_a_program_reads_the_same_with_and_without_step_numbers(text):
    plain = [i for i in parse(text) if i.opcode in OPCODES]
    numbered = "\n".join(f"STEP {n}: {i}" for n, i in enumerate(plain, 1))
    assert [str(i) for i in parse(numbered)] == [str(i) for i in parse("\n".join(map(str, plain)))]


@pytest.mark.parametrize("text", [
    "FINAL" + " " * 300_000, "FINAL:" * 50_000, "FINAL " * 50_000, "STEP " + "1" * 300_000, "STEP 1:" * 40_000, "\0" * 300_000,
    "PUSH " + "9" * 300_000, "PUSH_TEXT x\n" + "REVERSE\n" * 100_000, "\ud800" * 1000, "TABLE " + "k:1 " * 100_000,
    "PUSH 9\n" + "PUSH 99999999999\nMUL\n" * 2000, "PUSH_LIST" + " 1" * MAX_LENGTH + "\nTABLE a:1" * 990,
    "PUSH_TEXT " + "é" * MAX_LENGTH + "\nUPPER\nLOWER" * 490,
])  # fmt: skip
def test_long_and_odd_texts_take_bounded_time(text):
    started = time.perf_counter()
    execute(parse(text))
    final_answers(text)
    assert time.perf_counter() - started < 1  # milliseconds in truth; generous, as machines are shared
    assert len(text) <= MAX_CHARACTERS or len(parse(text)) <= MAX_STEPS + 1
