"""A generation becomes one flat row of scores: pure, no file, no model.

The published columns follow the published run's definitions; the others say how a program left its procedure.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import lru_cache
from operator import is_

from .formats import Format
from .interpreter import Execution, Instruction, execute, final_answers, parse
from .tasks.base import Example

# An example's gold program is read and run once, not once an arm.
_gold = lru_cache(maxsize=1 << 13)(parse)


@dataclass(frozen=True)
class Score:
    """One generation, scored. Rates are means of the booleans (1 or 0 in the CSVs)."""

    primary_correct: bool
    exec_correct: bool
    final_correct: bool
    valid_exec: bool
    exact_program: bool
    has_final: bool
    failure_type: str
    exec_value: str
    exec_error: str
    final_value: str
    several_finals: bool
    instructions: int
    gold_instructions: int
    length: str  # under, exact or over: instructions against gold; empty where none were asked for
    first_divergence: int | None  # first step, from 1, that differs from gold; None where all agree
    prefix_accuracy: float | None  # matched leading steps / the longer of the two; None where none were asked for


def score(reads_program: bool, text: str, answer: str, gold_program: str, lenient: bool = False, finals: list[str] | None = None) -> Score:
    """Score one generation.

    reads_program: whether the arm asks for instructions; without, only the written answer is read.
    answer, gold_program: the gold answer and the gold instructions, one a line (step prefixes allowed).
    lenient: read whole numbers as the published run did (see `interpreter.execute`).
    finals: the answers written in the text, where they do not stand behind FINAL.
    """
    finals = final_answers(text) if finals is None else finals
    final = finals[0] if finals else ""
    final_correct = bool(finals) and final == answer
    gold = _gold(gold_program)
    program = parse(text) if reads_program else ()
    run = _run(program, gold, gold_program, lenient) if reads_program else _NOT_RUN
    exec_correct = run.value is not None and run.value == answer
    matched = _matched(program, gold)
    longer = max(len(program), len(gold))
    exact = reads_program and matched == longer
    return Score(
        primary_correct=exec_correct if reads_program else final_correct,
        exec_correct=exec_correct,
        final_correct=final_correct,
        valid_exec=run.value is not None,
        exact_program=exact,
        has_final=bool(finals),
        failure_type=_failure_type(program, gold, run, exec_correct, exact) if reads_program else "n/a_answer_only",
        exec_value=run.value or "",
        exec_error=str(run.error) if run.error else "",
        final_value=final,
        several_finals=len(finals) > 1,
        instructions=len(program),
        gold_instructions=len(gold),
        length=_length(program, gold) if reads_program else "",
        first_divergence=matched + 1 if reads_program and matched < longer else None,
        prefix_accuracy=(matched / longer if longer else 1.0) if reads_program else None,
    )


_NOT_RUN = Execution(None, None, ())


@lru_cache(maxsize=1 << 13)
def _gold_run(gold_program: str, lenient: bool) -> Execution:
    return execute(_gold(gold_program), lenient)


def _run(program: tuple[Instruction, ...], gold: tuple[Instruction, ...], gold_program: str, lenient: bool) -> Execution:
    # The very same instructions, not equal ones: those may differ in the white space of a text.
    same = len(program) == len(gold) and all(map(is_, program, gold))
    return _gold_run(gold_program, lenient) if same else execute(program, lenient)


def score_text(form: Format, text: str, example: Example, failed: bool = False) -> Score:
    """Score a text of a format. failed: a step-by-step loop broke off, and what it has so far counts as wrong,
    whatever it comes to."""
    finals = form.answers(text) if form.answers else None
    scored = score(form.reads_program, form.read(text), example.answer, example.program, finals=finals)
    if not failed:
        return scored
    kind = scored.failure_type if not scored.exec_correct and scored.valid_exec is False else "invalid_or_unexecutable"
    return replace(scored, primary_correct=False, exec_correct=False, valid_exec=False, failure_type=kind)


def _matched(program: tuple[Instruction, ...], gold: tuple[Instruction, ...]) -> int:
    """How many leading instructions are the gold program's."""
    for n, (ours, theirs) in enumerate(zip(program, gold)):
        if ours is not theirs and ours != theirs:
            return n
    return min(len(program), len(gold))


def _length(program: tuple[Instruction, ...], gold: tuple[Instruction, ...]) -> str:
    difference = len(program) - len(gold)
    return "exact" if difference == 0 else "under" if difference < 0 else "over"


def _failure_type(program: tuple[Instruction, ...], gold: tuple[Instruction, ...], run: Execution, correct: bool, exact: bool) -> str:
    """The published order, but that a text without instructions is told apart before it counts as invalid (no
    published program is empty, so no published row tells the two orders apart)."""
    if correct:
        return "correct_exact" if exact else "correct_semantic_variant"
    if not program:
        return "empty_or_no_program"
    if run.error:
        return "invalid_or_unexecutable"
    if [i.opcode for i in program] != [i.opcode for i in gold]:
        return "wrong_op_order_or_choice"
    return "wrong_constant_or_argument"
