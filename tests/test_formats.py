"""Formats: targets read back to what they were made from, in every family."""

import pytest

from depthstress.formats import END, FORMATS, prompt_sha256
from depthstress.interpreter import execute, parse
from depthstress.tasks import make_split


@pytest.fixture(scope="module")
def examples():
    return [example for depth in (1, 3) for example in make_split("t", f"d{depth}", 1, 24, [depth], "varied", "full", set())]


@pytest.mark.parametrize("form", [form for form in FORMATS.values() if form.reads_program], ids=lambda form: form.name)
def test_a_target_reads_as_the_gold_program(form, examples):
    for example in examples:
        assert parse(form.read(form.target(example))) == parse(example.program)


def test_state_trace_has_the_value_after_every_instruction(examples):
    form = FORMATS["state_trace"]
    for example in examples:
        target = form.target(example)
        states = [line.removeprefix("= ") for line in target.splitlines() if line.startswith("= ")]
        assert states == [state for state in execute(parse(form.read(target))).states if state is not None]
        assert form.answers(target) == [example.answer]
    assert form.answers("PUSH 1\n") == []
    assert form.answers("PUSH 1\n= 1\nADD 2\n=3") == ["3"]


def test_next_instruction_has_a_row_for_every_instruction_and_for_the_end(examples):
    form = FORMATS["next_instruction"]
    for example in examples:
        rows = list(form.rows(example))
        assert "".join(target for _, target in rows) == f"{example.program}\n{END}\n"
        assert all(example.request in prompt for prompt, _ in rows)
        assert "Value: (none)" in rows[0][0]
        assert f"{example.program}\nValue: {example.states[-1]}" in rows[-1][0]


def test_other_formats_have_one_row(examples):
    form = FORMATS["trace_stack_final"]
    assert list(form.rows(examples[0])) == [(form.prompt(examples[0]), form.target(examples[0]))]


def test_every_prompt_of_a_format_begins_alike_and_ends_where_its_text_begins(examples):
    for form in FORMATS.values():
        for example in examples:
            assert form.prompt(example).startswith(form.instruction)
            assert form.prompt(example).endswith("\n\nOutput:\n")


def test_a_model_that_was_not_trained_gets_the_card_and_the_examples(examples):
    text = FORMATS["program_stack"].described("The request.", examples[:2])
    assert "PUSH_TEXT text..." in text
    assert [text.count(part) for part in (examples[0].request, examples[1].request, "Example:")] == [1, 1, 2]
    assert text.endswith("The request.\n\nOutput:\n")
    assert "PUSH_TEXT text..." not in FORMATS["answer_only"].described("The request.", [])


def test_the_hash_of_a_prompt_is_that_of_its_bytes():
    assert prompt_sha256("é") == "4a99557e4033c3539de2eb65472017cad5f9557f7a0625a09f1c3f6e2ba69c4c"
