"""What the committed results of suite local must show, and the README says of them; that they stand is `test_verify`'s."""

import re

import pytest

from conftest import COMMITTED
from depthstress.analysis import read_tables
from depthstress.runs import Run
from depthstress.suites import ROOT


@pytest.fixture(scope="module")
def run():
    return Run("local", outputs=COMMITTED.parent)


def test_single_operations_are_learned(run):
    table = read_tables(run).summary
    row = table[(table["arm"] == "program_stack") & (table["depth"] == 1)].iloc[0]
    assert row["primary_accuracy_mean"] >= 0.9


def test_the_readme_says_what_the_report_says(run):
    from depthstress.report import sections

    readme = (ROOT / "README.md").read_text(encoding="utf-8")
    for sentence in sections.answer(read_tables(run).details):
        assert sentence in readme


def test_nothing_committed_names_a_path_of_one_machine(run):
    for path in run.folder.rglob("*"):
        if path.suffix in {".json", ".jsonl", ".csv", ".md", ".html", ".ipynb"} and not {"adapters", "stale"} & set(path.parts):
            assert not re.search(r"/(root|home|work|tmp)/", path.read_text(encoding="utf-8")), path.name
