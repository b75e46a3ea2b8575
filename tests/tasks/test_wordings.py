"""Wording files: complete, and what is wrong in one is named."""

import pytest

from depthstress.tasks import FAMILIES
from depthstress.tasks.wordings import SETS, load_wordings

GOOD = """
standard:
  frames: [{text: "Start with {date}.\\n{steps}"}]
  steps:
    ADD_DAYS: ["Add {a} days."]
    ADD_WEEKS: ["Add {a} weeks."]
"""


@pytest.mark.parametrize("family", FAMILIES)
@pytest.mark.parametrize("wording", SETS)
def test_every_family_has_both_sets(family, wording):
    assert load_wordings(family, wording).frames


@pytest.mark.parametrize("family", FAMILIES)
def test_no_wording_is_in_both_sets(family):
    standard, reworded = (load_wordings(family, wording) for wording in SETS)
    for opcode, wordings in standard.steps.items():
        assert not {w.lower().rstrip(".") for w in wordings} & {w.lower().rstrip(".") for w in reworded.steps[opcode]}


@pytest.mark.parametrize(("old", "new", "message"), [
    ("Add {a} days.", "Add some days.", r"date.yaml: standard: steps.ADD_DAYS\[0\] has slots \[\], not \['a'\]"),
    ("Add {a} days.", "Add {a} {b} days.", r"steps.ADD_DAYS\[0\] has slots"),
    ("Add {a} weeks.", "Add {a} days.", "steps has duplicate wordings"),
    ('ADD_WEEKS: ["Add {a} weeks."]', "", "steps has no wording for ADD_WEEKS"),
    ('ADD_WEEKS: ["Add {a} weeks."]', "ADD_WEEKS: []", "steps has no wording for ADD_WEEKS"),
    ("{steps}", "", r"frames\[0\] has no slot {steps}"),
    ("{date}", "{datee}", r"frames\[0\] has slots \['datee', 'steps'\]"),
    ("Start with {date}.", "Start.", r"frames\[0\] has slots \['steps'\]"),
    ("frames:", "frame:", "frame"),
])  # fmt: skip
def test_what_is_wrong_is_named(old, new, message, tmp_path):
    (tmp_path / "date.yaml").write_text(GOOD.replace(old, new, 1))
    with pytest.raises(ValueError, match=message):
        load_wordings("date", "standard", tmp_path)


def test_an_unknown_set_is_named(tmp_path):
    (tmp_path / "date.yaml").write_text(GOOD)
    assert load_wordings("date", "standard", tmp_path)
    with pytest.raises(ValueError, match="no set 'reworded'; it has standard"):
        load_wordings("date", "reworded", tmp_path)
