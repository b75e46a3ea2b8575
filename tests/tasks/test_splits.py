"""Splits: independent streams, no duplicates, nothing shared between training and evaluation."""

import dataclasses
from collections import Counter

import pytest

from depthstress.data import data_table, make_data
from depthstress.inputs import TRAIN
from depthstress.runs import Run
from depthstress.tasks import droppable, make_split
from depthstress.units import MissingInput


def programs(examples):
    return [example.program for example in examples]


def test_the_same_call_makes_the_same_examples():
    first = make_split("t", "s", 101, 30, [2], "standard", "full", set())
    assert first == make_split("t", "s", 101, 30, [2], "standard", "full", set())


def test_changing_suite_split_or_seed_changes_nearly_everything():
    base = programs(make_split("t", "s", 101, 120, [2], "standard", "full", set()))
    for suite, split, seed in (("u", "s", 101), ("t", "r", 101), ("t", "s", 102), ("t", "s", 100)):
        other = programs(make_split(suite, split, seed, 120, [2], "standard", "full", set()))
        assert len(set(base) & set(other)) <= 6  # small families repeat by chance; a shifted stream would share all but one


def test_a_longer_split_begins_with_the_shorter_one():
    assert make_split("t", "s", 5, 60, [1], "standard", "full", set())[:24] == make_split("t", "s", 5, 24, [1], "standard", "full", set())


def test_families_and_depths_take_turns():
    examples = make_split("t", "s", 5, 48, [1, 2], "standard", "full", set())
    assert Counter((e.family, e.depth) for e in examples) == Counter(
        {(f, d): 4 for f in ("string", "number", "table", "date", "list", "path") for d in (1, 2)}
    )


def test_no_program_twice_and_a_planted_one_is_avoided():
    planted = make_split("t", "s", 9, 12, [1], "standard", "full", set())
    taken = {planted[3].program}
    examples = make_split("t", "s", 9, 300, [1], "standard", "full", taken)
    assert planted[3].program not in programs(examples)
    assert len(set(programs(examples))) == 300
    assert taken == {planted[3].program, *programs(examples)}


def test_a_family_that_runs_out_of_programs_says_so():
    with pytest.raises(ValueError, match="has no new program of depth 1 .* ask for fewer"):
        make_split("t", "s", 9, 60_000, [1], "standard", "published", set())


@pytest.mark.parametrize("suite", ["smoke", "local", "pilot", "main"])
def test_nothing_is_shared_within_a_seed_of_a_real_suite(suite, tmp_path):
    run = Run(suite, outputs=tmp_path)
    for seed in run.seeds[:2]:
        make_data(run, seed)
        names = [TRAIN, *(split.name for split in run.suite.splits)]
        every = [example.program for name in names for example in run.examples(name, seed)]
        assert len(every) == len(set(every))
        ids = [example.id for name in names for example in run.examples(name, seed)]
        assert len(ids) == len(set(ids))


def test_evaluation_does_not_depend_on_training(tmp_path):
    one, other = Run("smoke", outputs=tmp_path / "one"), Run("smoke", outputs=tmp_path / "other")
    train = other.suite.train.model_copy(update={"examples": 60, "primitives": "full"})
    other.suite = other.suite.model_copy(update={"train": train})
    make_data(one, 101)
    make_data(other, 101)
    for split in one.suite.splits:
        assert one.examples(split.name, 101) == other.examples(split.name, 101)
    assert one.examples(TRAIN, 101) != other.examples(TRAIN, 101)


def test_a_step_that_can_be_left_out_is_found():
    example = make_split("t", "s", 1, 1, [1], "standard", "full", set())[0]
    flip = dataclasses.replace(example, program="PUSH_TEXT aB\nUPPER\nLOWER", answer="ab", depth=2)
    assert droppable(flip)
    assert not droppable(dataclasses.replace(flip, program="PUSH_TEXT aB\nUPPER\nREVERSE", answer="BA"))
    assert not droppable(example)


def test_data_of_other_settings_is_not_used(run):
    make_data(run, 101)
    assert run.examples(TRAIN, 101)
    run.suite = run.suite.model_copy(update={"evaluation": run.suite.evaluation.model_copy(update={"per_split": 12})})
    with pytest.raises(MissingInput, match="(?s)data/s101: it was made with other settings.*papermill 01_data.ipynb"):
        run.examples(TRAIN, 101)


def test_data_that_was_edited_is_not_used(run):
    make_data(run, 101)
    path = run.data(101).folder / "train.jsonl"
    path.write_text(path.read_text().replace("FINAL", "final").replace('"answer": "', '"answer": "1'))
    with pytest.raises(MissingInput, match="train.jsonl was changed"):
        run.examples(TRAIN, 101)


def test_data_of_other_code_is_made_again(run, monkeypatch):
    assert make_data(run, 101)
    monkeypatch.setattr("depthstress.inputs.sources_sha256", lambda *parts: "another family")
    assert make_data(run, 101)


def test_the_data_table_counts_what_needs_an_untrained_opcode(run):
    make_data(run, 101)
    table = {row["split"]: row for row in data_table(run, 101)}
    assert table[TRAIN]["with an untrained opcode"] == 0
    assert table["eval_indist_d1"]["depth"] == "1"
    assert table["eval_template_d2"]["wording"] == "held_out"
