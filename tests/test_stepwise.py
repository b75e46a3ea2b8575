"""The loop with the interpreter in between: what is asked, what is carried out, and how it can fail."""

from types import SimpleNamespace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from depthstress.arms import Arm
from depthstress.formats import END
from depthstress.interpreter import execute, parse
from depthstress.opcodes import OPCODES, Kind
from depthstress.stepwise import SPARE_STEPS, Loop, run_loops
from depthstress.tasks import FAMILIES, make_split
from depthstress.tasks.steps import Standing, start_of, step_request

DEPTHS = (1, 2, 6, 16)


def stepwise(form="program_stack", **settings):
    return Arm.model_validate({"name": "a", "format": form, "decoding": "stepwise", "stepwise": settings})


def examples(depth, count=12, wording="standard"):
    return make_split("t", f"d{depth}", 1, count, [depth], wording, "full", set())


def said(text, end="eos"):
    return SimpleNamespace(text=text, end=end, tokens=1)


def gold(loop):
    """What a perfect writer answers to the loop's question."""
    lines = loop.example.program.split("\n")
    if not loop.oracle:
        return f"{lines[loop.done] if loop.done < len(lines) else END}\n"
    operation = lines[len(lines) - loop.example.depth + loop.done]
    return "".join(f"{line}\n" for line in (() if loop.sees_kind else loop.standing.loads)) + f"{operation}\n"


def carried_out(loops, answer=gold):
    """Run the loops with a writer that looks at the loop; returns how many questions were answered."""
    count = 0

    def write(asks):
        nonlocal count
        count += len(asks)
        wanted = {ask.key for ask in asks}
        for loop in loops:
            if not loop.end and loop.ask().key in wanted:
                yield loop.ask(), said(answer(loop))

    run_loops(loops, {}, write)
    return count


ARMS = [stepwise(), stepwise(sees="kind"), stepwise(sees="kind", constrained=True), stepwise("next_instruction")]


@pytest.mark.parametrize("arm", ARMS, ids=lambda arm: arm.shown)
@pytest.mark.parametrize("depth", DEPTHS)
@pytest.mark.parametrize("wording", ["standard", "held_out"])
def test_a_perfect_writer_is_always_right(arm, depth, wording):
    loops = [Loop(example, arm) for example in examples(depth, wording=wording)]
    carried_out(loops)
    for loop in loops:
        assert (loop.end, loop.failure) == ("eos", None)
        assert loop.text == f"{loop.example.program}\n"
        assert execute(parse(loop.text)).value == loop.example.answer
        assert [step.value for step in loop.steps][-1] == loop.example.states[-1]


def test_the_value_is_the_interpreters():
    (example,) = [e for e in examples(6, 12) if e.family == "number"][:1]
    loop = Loop(example, stepwise())
    for n in range(example.depth):
        assert f"Start with the number {example.states[n]}." in loop.ask().prompt
        assert example.steps[n] in loop.ask().prompt
        loop.take(loop.ask(), gold(loop), "eos")
    assert loop.end == "eos"


def test_only_the_kind_is_shown_so_that_equal_steps_are_one_question():
    loops = [Loop(example, stepwise(sees="kind")) for example in examples(6, 120)]
    asked = carried_out(loops)
    assert asked < sum(loop.example.depth for loop in loops) / 2
    assert all(
        loop.example.states[1] not in loop.ask().prompt
        for loop in map(lambda e: Loop(e, stepwise(sees="kind")), examples(2))
        if loop.example.family == "string"
    )


def test_two_tasks_with_the_same_question_get_the_same_answer():
    example = examples(1)[0]
    loops = [Loop(example, stepwise()), Loop(example, stepwise())]
    assert carried_out(loops) == 1
    assert loops[0].text == loops[1].text


@pytest.mark.parametrize(("text", "end", "failure"), [
    ("", "eos", "step 1: no instruction"),
    ("FLIP\n", "eos", "step 1: unknown_opcode at step 2: FLIP"),
    ("ADD 3\n", "eos", "is no whole number"),
    ("REVERSE\nUPPER\n", "eos", "step 1: 2 instructions, not one"),
    ("REVERSE", "limit", "step 1: cut off at the token limit"),
])  # fmt: skip
def test_a_step_that_fails_ends_the_task_with_its_reason(text, end, failure):
    example = next(e for e in examples(2) if e.family == "string")
    loop = Loop(example, stepwise(sees="kind"))
    loop.take(loop.ask(), text, end)
    assert loop.end == "failed"
    assert failure in loop.failure
    assert loop.steps[-1].error in loop.failure
    assert loop.steps[-1].text == text


def test_a_table_that_is_none_ends_the_task():
    """Nothing is on the stack yet, and nothing was carried out."""
    loop = Loop(next(e for e in examples(1) if e.family == "table"), stepwise("next_instruction"))
    loop.take(loop.ask(), "TABLE\n", "stop")
    assert loop.end == "failed" and loop.failure.startswith("step 1: bad_operand")


LINES = st.builds(
    lambda opcode, rest: f"{opcode} {rest}\n",
    st.sampled_from([*OPCODES, *["TABLE"] * 5, "FLIP", "", END]),
    st.sampled_from(
        ["", "3", "-1 2", "alpha:1 beta:2", "6", "2026-01-31", "9999-12-31", "/a/b.txt", "x-Y", "alpha", "1 2 3", "\x00", "9" * 400]
    ),
)
TASKS = [example for depth in (1, 3) for example in examples(depth, 6)]


@pytest.mark.parametrize("arm", ARMS, ids=lambda arm: arm.shown)
@given(
    texts=st.lists(st.lists(LINES, max_size=3).map("".join) | st.text(max_size=30), min_size=1, max_size=8),
    number=st.integers(0, len(TASKS) - 1),
)
def test_whatever_a_model_writes_the_loop_ends_with_a_reason(arm, texts, number):
    loop = Loop(TASKS[number], arm)
    for turn in range(100):
        if loop.end:
            break
        loop.take(loop.ask(), texts[turn % len(texts)], "stop")
    assert loop.end in ("eos", "failed", "limit") and (loop.end == "eos") == (loop.failure is None)
    assert [step.error is None for step in loop.steps[:-1]] == [True] * (len(loop.steps) - 1)


def test_a_value_that_was_copied_wrongly_is_what_the_next_step_starts_from():
    example = next(e for e in examples(2) if e.family == "number")
    loop = Loop(example, stepwise())
    loop.take(loop.ask(), gold(loop), "eos")
    loop.take(loop.ask(), f"PUSH 5\n{example.program.split(chr(10))[-1]}\n", "eos")
    assert (loop.end, loop.failure) == ("eos", None)
    assert "PUSH 5" in loop.text.split("\n")[2]
    assert execute(parse(loop.text)).value == loop.steps[-1].value != example.answer


def test_a_failed_step_is_asked_again_only_where_retries_say_so():
    example = next(e for e in examples(1) if e.family == "string")
    loop = Loop(example, stepwise(sees="kind", retries=1))
    first = loop.ask()
    loop.take(first, "FLIP\n", "eos")
    assert not loop.end and loop.ask().key != first.key
    loop.take(loop.ask(), gold(loop), "eos")
    assert (loop.end, loop.text) == ("eos", f"{example.program}\n")
    assert [bool(step.error) for step in loop.steps] == [True, False]
    again = Loop(example, stepwise(sees="kind", retries=1))
    for _ in range(2):
        again.take(again.ask(), "FLIP\n", "eos")
    assert again.end == "failed"


def test_the_model_says_itself_when_it_is_done():
    example = next(e for e in examples(2) if e.family == "number")
    early = Loop(example, stepwise("next_instruction"))
    early.take(early.ask(), gold(early), "stop")
    early.take(early.ask(), "END\n", "stop")
    assert (early.end, early.failure, early.done) == ("eos", None, 1)
    assert execute(parse(early.text)).value != example.answer


def test_a_model_that_never_says_so_is_stopped():
    example = next(e for e in examples(2) if e.family == "string")
    loop = Loop(example, stepwise("next_instruction"))
    carried_out([loop], lambda loop: gold(loop) if loop.done < 3 else "REVERSE\n")
    assert loop.end == "limit"
    assert loop.done == 2 * 3 + SPARE_STEPS
    assert "no END after" in loop.failure


def test_a_standing_says_how_to_get_there():
    example = next(e for e in examples(1, 12) if e.family == "table")
    start = start_of(example)
    assert start.loads == tuple(example.program.split("\n")[:-1])
    later = Standing("7", Kind.NUMBER, start.table)
    assert later.loads == (f"TABLE {start.table}", "PUSH 7")
    assert step_request("table", later, "Add 2.").endswith("Start with the number 7.\n1. Add 2.")


VALUES = {Kind.TEXT: "ab-c", Kind.NUMBER: "7", Kind.DATE: "2026-01-02", Kind.LIST: "1 2"}


@pytest.mark.parametrize("family", FAMILIES)
@pytest.mark.parametrize("kind", Kind)
@pytest.mark.parametrize("table", [None, "alpha:1"])
def test_whatever_a_model_left_there_is_a_request_that_shows_it(family, kind, table):
    """A wrong step can leave a value of a kind that no task of the family has there."""
    request = step_request(family, Standing(VALUES[kind], kind, table), "Add 2.")
    assert VALUES[kind].replace(" ", ", ") in request
    assert request.endswith("\n1. Add 2.")


def test_a_reduced_list_is_a_number_like_any_other():
    assert step_request("list", Standing("12", Kind.NUMBER), "Add 2.") == "Start with the number 12.\n1. Add 2."
