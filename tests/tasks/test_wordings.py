"""Wordings: files that are complete, errors that name what is wrong, and held-out words that training never shows."""

import hashlib
import json
import re
from pathlib import Path

import pytest

from depthstress.formats import END, FORMATS
from depthstress.opcodes import OPCODES
from depthstress.tasks import FAMILIES, make_split
from depthstress.tasks.wordings import FOLDER, LEAST, SETS, load_wordings
from depthstress.yaml import read_yaml

STOP_WORDS = {word for words in read_yaml(Path(__file__).with_name("stop_words.yaml")).values() for word in words}

STANDARD = """
standard:
  frames: [{text: "Start with {date}.\\n{steps}"}]
  steps:
    ADD_DAYS: ["Add {a} days."]
    ADD_WEEKS: ["Add {a} weeks."]
"""
VARIED = """
varied:
  frames:
    - {text: "Start with {date}.\\n{steps}"}
    - {text: "Begin at {date}.\\n{steps}"}
    - {text: "Date: {date}\\n{steps}", item: "* {step}"}
    - {text: "{steps}\\nUse {date}.", item: "[{n}] {step}"}
  steps:
    ADD_DAYS: ["Add {a} days.", "d2 {a}", "d3 {a}", "d4 {a}", "d5 {a}", "d6 {a}", "d7 {a}", "d8 {a}"]
    ADD_WEEKS: ["Add {a} weeks.", "w2 {a}", "w3 {a}", "w4 {a}", "w5 {a}", "w6 {a}", "w7 {a}", "w8 {a}"]
"""
HELD_OUT = """
held_out:
  frames:
    - {text: "A meeting on {date}:\\n{steps}", item: "- {step}"}
    - {text: "A deadline on {date}:\\n{steps}", item: "({n}) {step}"}
  steps:
    ADD_DAYS: ["delay it {a} days", "hd2 {a}", "hd3 {a}", "hd4 {a}"]
    ADD_WEEKS: ["delay it {a} weeks", "hw2 {a}", "hw3 {a}", "hw4 {a}"]
"""
GOOD = {"standard": STANDARD, "varied": VARIED, "held_out": HELD_OUT}


def words(text):
    """A text's words and arithmetic signs; its slots left out."""
    return set(re.findall(r"[a-z]+|[+−×]", re.sub(r"\{\w+\}", " ", text.lower())))


def stem(word):
    """Enough of a stemmer that reverse, reverses, reversed, reversing and reversal are one word."""
    word = re.sub(r"(?<=..)(ing|ed|est|ers?|es|e|s)$", "", word)
    word = re.sub(r"(.)\1$", r"\1", word)  # dropped, drop
    return re.sub(r"y$", "i", word)[:5]


def content(texts):
    """The stems of some texts' content words."""
    return {stem(word) for text in texts for word in words(text) - STOP_WORDS}


def texts_of(wording):
    """Every wording and every frame of a set, in all families."""
    sets = [load_wordings(family, wording) for family in FAMILIES]
    return [text for worded in sets for texts in worded.steps.values() for text in texts] + [f.text for w in sets for f in w.frames]


TRAINING_TEXTS = texts_of("standard") + texts_of("varied")


@pytest.mark.parametrize("forms", ["reverse reversed reversing reverses reversal", "drop dropped dropping", "large larger largest",
                                   "add added adding adds", "copy copies", "capital capitals capitalise", "keep keeps keeping"])  # fmt: skip
def test_forms_of_one_word_have_one_stem(forms):
    assert len(content([forms])) == 1


def test_words_of_different_opcodes_have_different_stems():
    opposites = "lower upper first last maximum minimum add subtract multiply large small leading trailing front back"
    assert len(content([opposites])) == len(opposites.split())


@pytest.mark.parametrize("family", FAMILIES)
def test_a_held_out_wording_shares_no_content_word_with_any_training_wording_of_any_family(family):
    training = content(TRAINING_TEXTS)
    held_out = load_wordings(family, "held_out")
    shared = {text: sorted(content([text]) & training) for texts in held_out.steps.values() for text in texts}
    shared |= {frame.text: sorted(content([frame.text]) & training) for frame in held_out.frames}
    assert not {text: found for text, found in shared.items() if found}


@pytest.mark.parametrize("family", FAMILIES)
def test_a_held_out_wording_has_no_word_of_an_instruction_or_an_opcode(family):
    """Otherwise it could be solved by copying, or mislead: `suffix` for an extension."""
    written = content(
        [
            *(opcode.replace("_", " ") for opcode in OPCODES),
            *(form.instruction.replace(END, "") for form in FORMATS.values()),
            "STEP",
            "FINAL",
        ]
    )
    held_out = load_wordings(family, "held_out")
    for text in [*(frame.text for frame in held_out.frames), *(text for texts in held_out.steps.values() for text in texts)]:
        assert not content([text]) & written, text


def test_every_wording_has_a_content_word_of_its_own():
    """One made of stop words alone would be exempt from the tests above."""
    for text in TRAINING_TEXTS + texts_of("held_out"):
        assert content([text]) - {stem("days"), stem("weeks")}, text


def test_the_stop_list_has_no_word_that_is_not_needed():
    def every(texts):
        return {word for text in texts for word in words(text)}

    assert every(TRAINING_TEXTS) & every(texts_of("held_out")) == STOP_WORDS


@pytest.mark.parametrize("family", FAMILIES)
def test_held_out_steps_are_listed_in_other_styles(family):
    training, held_out = ({frame.item for frame in load_wordings(family, name).frames} for name in ("varied", "held_out"))
    assert not training & held_out
    assert len(training) >= 4
    assert len(held_out) >= 2


@pytest.mark.parametrize("family", FAMILIES)
@pytest.mark.parametrize("wording", SETS)
def test_every_family_has_every_set(family, wording):
    assert set(load_wordings(family, wording).steps) == set(FAMILIES[family].operations)


@pytest.mark.parametrize("family", FAMILIES)
def test_the_standard_set_has_one_wording_an_opcode_and_one_frame_a_start(family):
    standard = load_wordings(family, "standard")
    assert {len(texts) for texts in standard.steps.values()} == {1}
    assert len(standard.frames) == len(FAMILIES[family].slots)
    assert {frame.item for frame in standard.frames} == {"{n}. {step}"}


def test_standard_requests_stay_what_they_are():
    requests = "\n".join(example.request for example in make_split("t", "s", 101, 120, [1, 2], "standard", "full", set()))
    assert hashlib.sha256(requests.encode()).hexdigest() == "4b9415922006bdad02c299d4a47155f014cfb2de94629229a238e1684aa94fb6"


def test_what_the_tests_write_is_right(tmp_path):
    (tmp_path / "date.yaml").write_text(STANDARD + VARIED + HELD_OUT)
    for wording, (wordings, frames) in LEAST.items():
        worded = load_wordings("date", wording, tmp_path)
        assert {len(texts) for texts in worded.steps.values()} == {wordings}
        assert len(worded.frames) == frames


@pytest.mark.parametrize(("set_", "old", "new", "message"), [
    ("varied", "Add {a} days.", "Add some days.", r"steps.ADD_DAYS\[0\] has the slots none, not {a}: 'Add some days.'"),
    ("standard", "Add {a} days.", "Add {a} {b} days.", r"steps.ADD_DAYS\[0\] has the slots {a}, {b}, not {a}: "),
    ("varied", "d8 {a}", "d8 {c}", r"steps.ADD_DAYS\[7\] has the slots {c}, not {a}: "),
    ("varied", "d8 {a}", "d8 {a", r"steps.ADD_DAYS\[7\]: .*: 'd8 {a'"),
    ("varied", "d8 {a}", " ", r"steps.ADD_DAYS\[7\] is empty"),
    ("varied", '"d8 {a}"', "8", r"(?s:.*)steps.ADD_DAYS.7\s.*valid string"),
    ("varied", "w8 {a}", "D8  {a}.", r"steps has 'D8  {a}.' twice"),
    ("standard", "Add {a} weeks.", "Add {a} days.", r"steps has 'Add {a} days.' twice"),
    ("held_out", "hd2 {a}", "D2 {a}!", r"steps.ADD_DAYS has 'D2 {a}!', which is in varied too"),
    ("held_out", "hd2 {a}", "add {a} days", r"steps.ADD_DAYS has 'add {a} days', which is in (standard|varied) too"),
    ("varied", ', "d8 {a}"', "", r"steps.ADD_DAYS has 7 wordings; it needs 8"),
    ("held_out", ', "hw4 {a}"', "", r"steps.ADD_WEEKS has 3 wordings; it needs 4"),
    ("standard", 'ADD_WEEKS: ["Add {a} weeks."]', "", r"steps.ADD_WEEKS has 0 wordings; it needs 1"),
    ("standard", '"Add {a} weeks."', "", r"steps.ADD_WEEKS has 0 wordings; it needs 1"),
    ("varied", "Add {a} weeks.", "w1 {a}", "steps.ADD_WEEKS lacks the standard 'Add {a} weeks.'"),
    ("varied", "ADD_WEEKS:", "SUM: []\n    ADD_WEEKS:", "steps.SUM is no operation of this family; those are ADD_DAYS, ADD_WEEKS"),
    ("standard", "ADD_WEEKS:", "ADD_YEARS: []\n    ADD_WEEKS:", "steps.ADD_YEARS is no operation of this family"),
    ("varied", "Begin at {date}.\\n{steps}", "Begin at {date}.", r"frames\[1\].text has the slots {date}, not {date}, {steps}: "),
    ("varied", "Begin at {date}.", "Begin at {datee}.", r"frames\[1\].text has the slots {datee}, {steps}, not {date}, {steps}: "),
    ("varied", "Begin at {date}.", "Begin.", r"frames\[1\].text has the slots {steps}, not {date}, {steps}: "),
    ("varied", "* {step}", "* {stepp}", r"frames\[2\].item has the slots {stepp}, not {step} or {n}, {step}: "),
    ("varied", "Begin at {date}.", "start with {date}.", r"frames has 'start with {date}.\\n{steps}' twice"),
    ("varied", "Start with {date}.", "Start from {date}.", "frames lacks the standard 'Start with {date}.\\\\n{steps}'"),
    ("varied", '    - {text: "Begin at {date}.\\n{steps}"}\n', "", "frames has 3 with the slots {date}, {steps}; it needs 4"),
    ("held_out", "A meeting on {date}:", "Date: {date}", r"frames has 'Date: {date}\\n{steps}', which is in varied too"),
    ("varied", "frames:", "frame:", "(?s:.*)frame\\s"),
])  # fmt: skip
def test_what_is_wrong_is_named(set_, old, new, message, tmp_path):
    assert GOOD[set_].count(old) == 1
    sets = GOOD | {set_: GOOD[set_].replace(old, new)}
    (tmp_path / "date.yaml").write_text("".join(sets.values()))
    with pytest.raises(ValueError, match=f"^date.yaml: {set_}: {message}"):
        load_wordings("date", set_, tmp_path)


def test_frames_are_counted_for_each_combination_of_slots(tmp_path):
    read = read_yaml(FOLDER / "table.yaml")
    frames = read["varied"]["frames"]
    with_number = [frame for frame in frames if "{number}" in frame["text"]]
    read["varied"]["frames"] = [frame for frame in frames if frame not in with_number[3:]]
    (tmp_path / "table.yaml").write_text(json.dumps(read))
    with pytest.raises(ValueError, match="table.yaml: varied: frames has 3 with the slots {number}, {steps}, {table}; it needs 4"):
        load_wordings("table", "varied", tmp_path)


def test_a_fault_in_one_set_is_found_when_another_is_asked_for(tmp_path):
    (tmp_path / "date.yaml").write_text(STANDARD + VARIED.replace("d8 {a}", "d8"))
    with pytest.raises(ValueError, match=r"date.yaml: varied: steps.ADD_DAYS\[7\]"):
        load_wordings("date", "standard", tmp_path)


def test_an_unknown_set_is_named(tmp_path):
    (tmp_path / "date.yaml").write_text(STANDARD + HELD_OUT.replace("held_out:", "heldout:"))
    with pytest.raises(ValueError, match="date.yaml: unknown set 'heldout'; there are standard, varied, held_out"):
        load_wordings("date", "standard", tmp_path)


def test_an_absent_set_is_named(tmp_path):
    (tmp_path / "date.yaml").write_text(STANDARD)
    assert load_wordings("date", "standard", tmp_path)
    with pytest.raises(ValueError, match="date.yaml: no set 'held_out'; it has standard"):
        load_wordings("date", "held_out", tmp_path)
