"""Every family: what it draws, and that what it draws is a fair task."""

import random

import pytest

from depthstress.formats import FORMATS
from depthstress.interpreter import execute, parse
from depthstress.opcodes import OPCODES
from depthstress.scoring import score_text
from depthstress.tasks import FAMILIES, make_split, trainable
from depthstress.tasks.wordings import SETS

NEVER_IN_PUBLISHED_TRAINING = {"TAKE_PREFIX", "TAKE_SUFFIX", "SLICE", "ADD_LOOKUP", "STRIP_EXT"}
DEPTHS = (1, 2, 3, 4, 6, 8, 12, 16)


def test_the_six_families_of_the_published_run():
    assert list(FAMILIES) == ["string", "number", "table", "date", "list", "path"]
    assert all(set(family.operations) <= set(OPCODES) for family in FAMILIES.values())


def test_published_primitives_are_what_its_training_data_could_contain():
    assert trainable("full") - trainable("published") == NEVER_IN_PUBLISHED_TRAINING


@pytest.mark.parametrize("family", FAMILIES)
@pytest.mark.parametrize("depth", DEPTHS)
def test_every_step_changes_the_value_and_none_is_empty(family, depth):
    for n in range(60):
        procedure = FAMILIES[family].draw(random.Random(f"{family}{depth}{n}"), depth, "full")
        execution = execute(parse(procedure.program))
        assert execution.error is None
        assert execution.value
        reached = execution.states[len(procedure.start.program) - 1 :]
        assert all(before != after for before, after in zip(reached, reached[1:])), procedure.program
        assert len(reached) == depth + 1


@pytest.mark.parametrize("primitives", ["published", "full"])
def test_depth_1_training_covers_exactly_the_allowed_opcodes(primitives):
    examples = make_split("t", "train", 1, 600, [1], "standard", primitives, set())
    loads = {"PUSH_TEXT", "PUSH", "PUSH_DATE", "PUSH_LIST", "TABLE"}
    assert {example.operations[-1] for example in examples} == trainable(primitives)
    assert {op for example in examples for op in example.operations} - loads == trainable(primitives)


def test_a_depth_out_of_reach_is_an_error_that_says_so():
    with pytest.raises(ValueError, match="family table finds no procedure of depth 3 with the published primitives"):
        FAMILIES["table"].draw(random.Random(0), 3, "published")


@pytest.mark.parametrize("form", FORMATS.values(), ids=FORMATS)
@pytest.mark.parametrize("wording", SETS)
@pytest.mark.parametrize("depth", DEPTHS)
def test_the_gold_target_scores_exactly_one(form, wording, depth):
    for example in make_split("t", "oracle", 7, 24, [depth], wording, "full", set()):
        scored = score_text(form, form.target(example), example)
        assert scored.primary_correct
        assert scored.failure_type == ("correct_exact" if form.reads_program else "n/a_answer_only")
        assert scored.prefix_accuracy in (1.0, None)
        assert scored.first_divergence is None


@pytest.mark.parametrize("wording", SETS)
def test_requests_show_what_the_program_needs(wording):
    for example in make_split("t", "shown", 3, 120, [3], wording, "full", set()):
        for operand in example.program.replace("TABLE ", "").replace(":", " ").split():
            if operand not in OPCODES:
                assert operand in example.request, (operand, example.request)
        assert all(step in example.request for step in example.steps)


@pytest.mark.parametrize("depth", [2, 4, 6])
def test_a_program_without_operations_is_never_right(depth):
    for example in make_split("t", "idle", 5, 60, [depth], "standard", "full", set()):
        assert example.answer not in example.states[:-depth]
