"""Arms: factors that go together, errors that say which do not, adapters shared by what differs in decoding alone."""

import pytest
from pydantic import ValidationError

from depthstress.arms import Arm
from depthstress.formats import FORMATS


def arm(**fields):
    return Arm.model_validate({"name": "a", "format": "program_stack"} | fields)


@pytest.mark.parametrize("name", ["answer_only", "trace_stack_final", "trace_stack_no_final", "program_stack"])
def test_a_published_arm_can_be_given_by_its_name(name):
    published = Arm.model_validate(name)
    assert (published.name, published.format, published.adapter, published.decoding) == (name, name, name, "free")
    assert published.shown == FORMATS[name].title


def test_arms_that_differ_in_decoding_share_an_adapter():
    free, constrained, stepwise = (arm(training="full", decoding=how) for how in ("free", "constrained", "stepwise"))
    assert free.adapter == constrained.adapter == stepwise.adapter == "program_stack-full"
    assert len({free.shown, constrained.shown, stepwise.shown}) == 3
    assert arm().adapter == "program_stack"


@pytest.mark.parametrize("writer", ["base", "random", "oracle"])
def test_a_control_has_no_adapter(writer):
    assert arm(writer=writer).adapter is None


def test_the_decoding_in_tables_names_what_the_model_sees():
    assert [arm().decoded, arm(decoding="constrained").decoded] == ["free", "constrained"]
    assert arm(decoding="stepwise").decoded == "stepwise_value"
    assert (
        arm(decoding="stepwise", stepwise={"sees": "kind", "constrained": True, "retries": 2}).decoded
        == "stepwise_kind_constrained_retries2"
    )


@pytest.mark.parametrize(("fields", "message"), [
    ({"format": "prose"}, "unknown format 'prose'; there are answer_only"),
    ({"stepwise": {"sees": "kind"}}, "has settings for stepwise, but its decoding is free"),
    ({"format": "answer_only", "decoding": "stepwise"}, "decoding stepwise needs format program_stack or next_instruction, not answer_only"),
    ({"format": "next_instruction"}, "format next_instruction needs decoding stepwise"),
    ({"format": "next_instruction", "decoding": "stepwise", "stepwise": {"sees": "kind"}}, "and sees the value"),
    ({"writer": "base", "training": "full"}, "writer base has no adapter"),
    ({"writer": "oracle", "decoding": "stepwise"}, "writer oracle has no adapter"),
    ({"shots": 4}, "shots are for writer base"),
    ({"decoding": "beam"}, "Input should be 'free', 'constrained' or 'stepwise'"),
    ({"decoding": "stepwise", "stepwise": {"retries": -1}}, "greater than or equal to 0"),
    ({"training": "full-s1"}, "should match pattern"),
    ({"look": "kind"}, "Extra inputs are not permitted"),
])  # fmt: skip
def test_what_does_not_go_together_is_said(fields, message):
    with pytest.raises(ValidationError, match=message):
        arm(**fields)
