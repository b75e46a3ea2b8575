"""Scores of single generations."""

import pytest

from depthstress.scoring import score

GOLD = "PUSH 5\nADD 3\nMUL 2"


def program(text, answer="16", gold=GOLD):
    return score(True, text, answer, gold)


@pytest.mark.parametrize(("text", "expected"), [
    (GOLD, "correct_exact"),
    ("STEP 1: push 5\nSTEP 2: ADD 3\nSTEP 3: mul 2", "correct_exact"),
    ("PUSH 8\nMUL 2", "correct_semantic_variant"),
    ("PUSH 5\nADD 3\nDOUBLE", "invalid_or_unexecutable"),
    ("", "empty_or_no_program"),
    ("FINAL 16", "empty_or_no_program"),
    ("PUSH 5\nADD 3\nADD 2", "wrong_op_order_or_choice"),
    ("PUSH 5\nADD 3", "wrong_op_order_or_choice"),
    ("PUSH 5\nADD 4\nMUL 2", "wrong_constant_or_argument"),
    ("PUSH   5\nADD  3\nMUL 2", "correct_exact"),
])  # fmt: skip
def test_failure_types(text, expected):
    assert program(text).failure_type == expected


def test_execution_and_the_written_answer_are_scored_apart():
    scored = program(f"{GOLD}\nFINAL 15")
    assert (scored.exec_correct, scored.final_correct, scored.primary_correct, scored.has_final) == (True, False, True, True)
    scored = program("PUSH 5\nFINAL 16")
    assert (scored.exec_correct, scored.final_correct, scored.primary_correct) == (False, True, False)


def test_answer_only_reads_the_first_final_alone():
    scored = score(False, "PUSH 16\nFINAL: 15\nFINAL: 16", "16", GOLD)
    assert (scored.primary_correct, scored.valid_exec, scored.several_finals, scored.final_value) == (False, False, True, "15")
    assert (scored.failure_type, scored.length, scored.prefix_accuracy) == ("n/a_answer_only", "", None)


def test_no_answer_is_not_right_even_where_the_gold_answer_is_empty():
    assert not score(False, "nothing", "", "PUSH_TEXT x\nEXTENSION").final_correct


@pytest.mark.parametrize(("text", "length", "divergence", "prefix"), [
    (GOLD, "exact", None, 1.0),
    ("PUSH 5", "under", 2, 1 / 3),
    ("PUSH 5\nADD 3\nMUL 2\nADD 1", "over", 4, 3 / 4),
    ("PUSH 5\nADD 4\nMUL 2", "exact", 2, 1 / 3),
    ("", "under", 1, 0.0),
])  # fmt: skip
def test_where_a_program_leaves_its_procedure(text, length, divergence, prefix):
    scored = program(text)
    assert (scored.length, scored.first_divergence) == (length, divergence)
    assert scored.prefix_accuracy == pytest.approx(prefix)


def test_a_number_is_compared_as_text():
    assert not score(False, "FINAL 007", "7", GOLD).final_correct
    assert score(False, "FINAL NA", "NA", GOLD).final_correct
