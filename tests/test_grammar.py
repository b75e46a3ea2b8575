"""Grammars: every gold program is in them, nothing else that fails is, and other readers of GBNF take them."""

import calendar
import itertools
import random
import re
from functools import partial

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from depthstress.constraint import Constraint
from depthstress.formats import FORMATS
from depthstress.gbnf import Chars, Either, Repeat, Rule, draw, gbnf
from depthstress.grammar import (
    GRAMMAR_FORMATS,
    KEY_CHARACTERS,
    NUMBERS,
    PAIRS,
    POSSIBLE,
    WORD_UNITS,
    WORDS,
    _program,
    _State,
    _text,
    answer_grammar,
    arm_grammar,
    instruction_grammar,
    program_grammar,
    random_program,
)
from depthstress.interpreter import Reason, execute, final_answers, parse
from depthstress.opcodes import OPCODES, Kind
from depthstress.tasks import FAMILIES, make_split

THOROUGH = settings(max_examples=200, deadline=None)


@pytest.fixture(scope="session")
def accepts(byte_tokenizer):
    """Whether a grammar derives a text: byte by byte, then the end token."""
    vocab_size, end = len(byte_tokenizer), byte_tokenizer.eos_token_id

    def accepts(grammar: str, text: str) -> bool:
        matcher = Constraint(grammar, byte_tokenizer, vocab_size, (end,)).start()
        try:
            for token in [*byte_tokenizer(text, add_special_tokens=False).input_ids, end]:
                matcher.accept(token)
        except ValueError:
            return False
        return True

    return accepts


@THOROUGH
@given(st.sampled_from(sorted(FAMILIES)), st.integers(1, 8), st.integers(0, 10**6))
def test_every_gold_program_is_derivable(accepts, family, depth, seed):
    procedure = FAMILIES[family].draw(random.Random(seed), depth, "full")
    keys = tuple(sorted(procedure.start.table))
    numbered = "".join(f"STEP {n}: {line}\n" for n, line in enumerate(procedure.program.split("\n"), 1))
    for grammar in (program_grammar(), program_grammar(least=depth, most=depth), program_grammar(most=8, keys=keys)):
        assert accepts(grammar, procedure.program + "\n")
    for most in (None, depth, 8):
        assert accepts(program_grammar("numbered", most=most), numbered)
    assert not accepts(program_grammar(most=depth - 1), procedure.program + "\n")
    assert not accepts(program_grammar(least=depth + 1), procedure.program + "\n")


@pytest.mark.parametrize("arm", GRAMMAR_FORMATS)
def test_every_gold_target_is_derivable(accepts, arm):
    for example in make_split("t", "grammar", 3, 48, [1, 2, 4, 8], "standard", "full", set()):
        for grammar in (arm_grammar(arm), arm_grammar(arm, most=8)):
            assert accepts(grammar, FORMATS[arm].target(example)), example.program
            assert not accepts(grammar, FORMATS[arm].target(example).rstrip("\n"))


@pytest.mark.parametrize("kind", [None, *Kind])
def test_a_single_instruction_is_one_that_the_kind_can_take(accepts, kind):
    for table in (False, True):
        grammar = instruction_grammar(kind, table, ["beta"])
        for opcode in OPCODES.values():
            operands = {
                "text...": "a b",
                "n": "-3",
                "count": "2",
                "YYYY-MM-DD": "2028-02-29",
                "n...": "3 -4",
                "key:n...": "beta:1",
                "key": "beta",
            }
            line = " ".join([opcode.name, *(operands[o] for o in opcode.operands)])
            keyed = "key" in opcode.operands
            if kind is None:
                expected = opcode.name in (("PUSH", "LOOKUP") if table else ("PUSH_TEXT", "PUSH", "PUSH_DATE", "PUSH_LIST", "TABLE"))
            else:
                expected = opcode.takes == (kind,) and (table or not keyed)
            assert accepts(grammar, line + "\n") == expected, (line, kind, table)
            assert not accepts(grammar, f"{line}\n{line}\n")


@pytest.mark.parametrize("text", [
    "FLIP\n", "PUSH 5\nFLIP\n", "PUSH 5\nSUBTRACT 3\n", "PUSH_TEXT ab\nCAPS\n",  # invented opcodes
    "PUSH 5\nUPPER\n", "PUSH_TEXT ab\nADD 1\n", "PUSH_DATE 2026-01-01\nADD 1\n", "PUSH_LIST 1 2\nADD 1\n", "PUSH_LIST 1 2\nSUM\nMAX\n",  # kinds
    "PUSH\n", "PUSH \n", "PUSH_TEXT\n", "PUSH_TEXT ab\nSLICE 1\n", "PUSH 5\nADD\n", "PUSH_TEXT ab\nTAKE_PREFIX -1\n", "PUSH_LIST \n",  # operands
    "PUSH 5 6\n", "PUSH 5\nADD 1 2\n", "PUSH_TEXT ab\nUPPER it\n", "PUSH_TEXT ab \n", "PUSH_TEXT  ab\n", "PUSH 05\n", "PUSH 1234567890\n",
    "PUSH_DATE 2026-02-29\n", "PUSH_DATE 2026-04-31\n", "PUSH_DATE 2026-13-01\n", "PUSH_DATE 2026-00-10\n", "PUSH_DATE 0001-01-01\n",
    "PUSH 5\nPUSH 6\n", "PUSH 5\nLOOKUP a\n", "LOOKUP a\n", "ADD 1\n", "TABLE a:1\n", "TABLE a:1\nPUSH_TEXT ab\n", "TABLE a\nLOOKUP a\n",
    "STEP 1: PUSH 5\n", "1. PUSH 5\n", "push 5\n", " PUSH 5\n", "PUSH 5", "PUSH 5\n\n", "PUSH 5\r\n", "\n", "", "FINAL 5\n", "PUSH 5\nFINAL 5\n",
    "PUSH_TEXT FINAL\n", "PUSH_TEXT x FINAL 7\n", "PUSH_TEXT FINFINAL\n", "PUSH_TEXT `a\n", "PUSH_TEXT a\tb\n", "PUSH_TEXT a\u2028b\n",
    "PUSH_TEXT \u00a0\n", "TABLE FINAL:1\nLOOKUP FINAL\n",
])  # fmt: skip
def test_what_is_no_bare_program_is_refused(accepts, text):
    assert not accepts(program_grammar(), text)
    assert not accepts(program_grammar(most=4), text)


@pytest.mark.parametrize(("most", "line"), [
    (NUMBERS, lambda n: "PUSH_LIST" + " 6" * n),
    (PAIRS, lambda n: "TABLE" + " a:1" * n + "\nLOOKUP a"),
    (KEY_CHARACTERS, lambda n: f"TABLE {'k' * n}:1\nLOOKUP a"),
    (WORDS, lambda n: "PUSH_TEXT" + " ab" * n),
    (WORD_UNITS, lambda n: "PUSH_TEXT " + "8" * n),
])  # fmt: skip
def test_no_line_goes_on_for_ever(accepts, most, line):
    """A model that repeats itself comes to the line's end nevertheless."""
    for grammar in (program_grammar(), program_grammar(most=4)):
        assert accepts(grammar, line(most) + "\n")
        assert not accepts(grammar, line(most + 1) + "\n")


@pytest.mark.parametrize(("text", "free", "counted"), [
    ("STEP 1: PUSH 5\nSTEP 2: ADD 1\n", True, True),
    ("STEP 7: PUSH 5\nSTEP 3: ADD 1\n", True, False),
    ("STEP 1: TABLE a:1\nSTEP 2: PUSH 5\nSTEP 3: ADD_LOOKUP a\n", True, True),
    ("STEP 0: PUSH 5\n", False, False),
    ("PUSH 5\n", False, False),
    ("STEP 1: PUSH 5\nADD 1\n", False, False),
    ("STEP 1: PUSH 5\nFINAL 5\n", False, False),
])  # fmt: skip
def test_numbered_lines(accepts, text, free, counted):
    assert accepts(program_grammar("numbered"), text) == free
    assert accepts(program_grammar("numbered", most=3), text) == counted


def test_a_value_then_exactly_one_instruction(accepts):
    grammar = program_grammar(least=1, most=1)
    for text in ("PUSH 5\nADD 1\n", "PUSH_TEXT a-b\nSTRIP_HYPHENS\n", "TABLE a:1 b:2\nLOOKUP b\n", "TABLE a:1\nPUSH 2\nADD_LOOKUP a\n"):
        assert accepts(grammar, text)
    for text in ("PUSH 5\n", "PUSH 5\nADD 1\nADD 1\n", "TABLE a:1\nPUSH 2\n", "TABLE a:1\nLOOKUP a\nADD 1\n"):
        assert not accepts(grammar, text)


def test_keys_can_be_limited_to_those_of_the_request(accepts):
    grammar = program_grammar(keys=["alpha", "Be.ta"])
    assert accepts(grammar, "TABLE alpha:1 Be.ta:2\nLOOKUP Be.ta\nADD_LOOKUP alpha\n")
    assert not accepts(grammar, "TABLE alpha:1\nLOOKUP gamma\n")
    assert not accepts(grammar, "TABLE gamma:1\nLOOKUP alpha\n")
    assert "TABLE" not in program_grammar(keys=[]) and accepts(program_grammar(keys=[]), "PUSH 5\n")
    for key in ("a b", "", "a:b", 'a"', "FINAL"):
        with pytest.raises(ValueError, match="can't be a table key"):
            program_grammar(keys=[key])


def test_answers_are_what_is_read_as_one(accepts):
    for answer in ("7", "-7", "kc-1", "/a/b.txt", "2026-01-01", "a:b", "A_b+c"):
        assert accepts(answer_grammar(), f"FINAL: {answer}\n")
        assert final_answers(f"FINAL: {answer}\n") == [answer]
        assert accepts(program_grammar("numbered", final=True), f"STEP 1: PUSH 5\nFINAL {answer}\n")
    for text in ("FINAL: \n", "FINAL: two words\n", "FINAL 7\n", "FINAL: é\n", "7\n"):
        assert not accepts(answer_grammar(), text)


def test_the_dates_are_those_that_exist(accepts):
    grammar = instruction_grammar(None, False)
    for year in (1000, 1900, 2000, 2024, 2026, 2100, 9996, 9999):
        for month, day in itertools.product(range(14), (0, 1, 9, 10, 19, 20, 28, 29, 30, 31, 32)):
            exists = 1 <= month <= 12 and 1 <= day <= calendar.monthrange(year, month)[1]
            assert accepts(grammar, f"PUSH_DATE {year}-{month:02}-{day:02}\n") == exists, (year, month, day)


def test_characters_of_a_text_are_those_that_the_reader_keeps():
    rules = _text()
    unit = re.compile(gbnf({"root": rules["unit"]}).removeprefix("root ::= ").strip().replace('"', "").replace(" ", ""))
    assert unit.fullmatch("x") and not unit.fullmatch("F")
    for code in range(0x10000):
        character = chr(code)
        reader_keeps = not character.isspace() and len(f"a{character}b".splitlines()) == 1 and character != "`"
        control = code < 0x20 or 0x7F <= code <= 0xA0
        if not 0xD800 <= code <= 0xDFFF and character != "F":
            assert bool(unit.fullmatch(character)) == (reader_keeps and not control), hex(code)


def test_words_are_those_without_final(accepts):
    grammar = instruction_grammar(None, False)
    rng = random.Random(0)
    words = ["".join(rng.choices("FINALx", k=rng.randint(1, 9))) for _ in range(1500)]
    for word in [*words, "FINAL", "FINFINAL", "FINAFINAL", "FFINAL", "FINAFINA", "FINALLY", "xFINALx"]:
        assert accepts(grammar, f"PUSH_TEXT {word}\n") == ("FINAL" not in word), word


@THOROUGH
@given(st.text(st.sampled_from("aZ9 -_/.`FINAL\t\xa0é日😀\u2028\x85"), min_size=1, max_size=12))
def test_a_text_that_is_accepted_is_pushed_as_it_is(accepts, text):
    if accepts(program_grammar(), f"PUSH_TEXT {text}\n"):
        assert execute(parse(f"PUSH_TEXT {text}\n")).states == (text,)


def reachable(line, most, seed):
    """A random derivation, also of grammars that end where they like."""
    rules = _program(line, False, 0, most, None, _State())
    return draw(random.Random(seed), rules)


@settings(max_examples=800, deadline=None)
@given(st.integers(0, 10**9), st.integers(0, 9), st.sampled_from(["bare", "numbered"]))
def test_derivations_run_or_fail_only_as_the_module_says(seed, operations, line):
    for text in (random_program(random.Random(seed), operations), reachable(line, operations, seed), reachable(line, None, seed)):
        program = parse(text)
        assert len(program) == text.count("\n")
        error = execute(program).error
        assert error is None or error.reason in POSSIBLE, text


@THOROUGH
@given(st.integers(0, 10**9), st.integers(0, 6))
def test_random_programs_are_derivable(accepts, seed, operations):
    program = random_program(random.Random(seed), operations)
    assert program == random_program(random.Random(seed), operations)
    assert accepts(program_grammar(least=operations, most=operations), program)


@pytest.mark.parametrize("family", FAMILIES)
def test_random_operations_on_what_a_gold_program_loads(family):
    example = next(e for e in make_split("t", "control", 5, 12, [2], "standard", "full", set()) if e.family == family)
    loads = [line for line in example.program.split("\n") if line.split()[0] in ("PUSH_TEXT", "PUSH", "PUSH_DATE", "PUSH_LIST", "TABLE")]
    programs = {random_program(random.Random(n), example.depth, loads) for n in range(40)}
    assert len(programs) > 10
    for program in programs:
        assert program.startswith("\n".join(loads) + "\n")
        assert sum(line.split()[0] not in ("PUSH_TEXT", "PUSH", "PUSH_DATE", "PUSH_LIST", "TABLE") for line in program.splitlines()) == 2
        error = execute(parse(program)).error
        assert error is None or error.reason == Reason.LIMIT, program


@pytest.mark.parametrize("loads", [["PUSH 5", "PUSH 6"], ["ADD 5"], ["FLIP"], ["LOOKUP a"], ["PUSH_TEXT a", "UPPER"]])
def test_loads_that_cannot_be_are_named(loads):
    with pytest.raises(ValueError, match="can't be loaded there"):
        random_program(random.Random(0), 1, loads)


@pytest.mark.parametrize(("call", "message"), [
    (partial(program_grammar, "dotted"), "bare or numbered"),
    (partial(program_grammar, least=3, most=2), "3 to 2 operations"),
    (partial(program_grammar, least=-1), "-1 to None operations"),
    (partial(arm_grammar, "essay"), "no grammar for arm 'essay'"),
])  # fmt: skip
def test_what_cannot_be_is_named(call, message):
    with pytest.raises(ValueError, match=message):
        call()


def test_gbnf_is_written_as_llama_cpp_writes_it():
    rules = {
        "root": Either((("a", "b\n", Rule("digits")), Repeat(("x", Rule("digits")), 1, 3), Repeat("-", 0, 1), "")),
        "unused": "z",
        "digits": Repeat(Chars("0-9", "7"), 1),
    }
    assert gbnf(rules) == 'root ::= "ab\\n" digits | ("x" digits){1,3} | "-"? | ""\ndigits ::= [0-9]+\n'
    assert {draw(random.Random(n), rules)[:1] for n in range(50)} == {"a", "x", "-", ""}
