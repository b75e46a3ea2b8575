"""The committed results of suite local follow from the committed generations."""

import re

import pandas as pd
import pytest

from conftest import COMMITTED
from depthstress.analysis import read_rows, read_tables, score_texts
from depthstress.data import make_data
from depthstress.runs import Run, read_examples
from depthstress.suites import ROOT
from depthstress.tables import coverage, metrics, summary


@pytest.fixture(scope="module")
def run():
    return Run("local", outputs=COMMITTED.parent)


def same(one: pd.DataFrame, other: pd.DataFrame) -> None:
    """Equal to 12 digits: what a CSV holds is text."""
    text, again = (pd.read_csv(pd.io.common.StringIO(frame.to_csv(index=False))) for frame in (one, other))
    pd.testing.assert_frame_equal(text, again, check_dtype=False, rtol=1e-12)


def test_the_summary_follows_from_the_generations(run):
    texts = {key: read_rows(run.generations(*key).folder) for key in run.evaluations}
    details = score_texts(run, texts, lambda split, seed: read_examples(run.data(seed).folder / f"{split}.jsonl"))
    assert len(details) == len(run.evaluations) * len(run.suite.splits) * run.suite.evaluation.per_split
    committed = read_tables(run)
    same(metrics(details), committed.metrics)
    same(summary(metrics(details)), committed.summary)
    same(
        coverage(details).assign(depth=lambda t: t["depth"].astype(str)), committed.coverage.assign(depth=lambda t: t["depth"].astype(str))
    )


def test_the_data_is_what_the_code_makes(run, tmp_path):
    fresh = Run("local", outputs=tmp_path)
    for seed in run.seeds:
        make_data(fresh, seed)
        for path in fresh.data(seed).files():
            assert path.read_bytes() == (run.data(seed).folder / path.name).read_bytes(), path.name


def test_single_operations_are_learned(run):
    table = read_tables(run).summary
    row = table[(table["arm"] == "program_stack") & (table["depth"] == 1)].iloc[0]
    assert row["primary_accuracy_mean"] >= 0.9


def test_the_report_says_what_the_tables_say(run):
    from depthstress.report import sections

    html = (run.folder / "report.html").read_text(encoding="utf-8")
    for sentence in sections.answer(read_tables(run).details):
        assert sentence in html
    assert not re.search(r"/(root|home|work|tmp)/", html)


def test_the_readme_says_what_the_report_says(run):
    from depthstress.report import sections

    readme = (ROOT / "README.md").read_text(encoding="utf-8")
    for sentence in sections.answer(read_tables(run).details):
        assert sentence in readme


def test_nothing_committed_names_a_path_of_one_machine(run):
    for path in run.folder.rglob("*"):
        if path.suffix in {".json", ".jsonl", ".csv", ".md", ".html", ".ipynb"} and not {"adapters", "stale"} & set(path.parts):
            assert not re.search(r"/(root|home|work|tmp)/", path.read_text(encoding="utf-8")), path.name
