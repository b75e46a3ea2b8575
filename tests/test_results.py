"""What the committed results must show, and the README says of them; that they stand is `test_verify`'s."""

import re

import pytest

from conftest import COMMITTED, FULL
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


WRITTEN = {"generations", "details.csv"}  # by models, which invent such paths
SHOWN = [
    "answer_only", "program_stack", "full", "full_constrained", "full_next", "full_stepwise_value", "full_stepwise_kind",
    "varied", "varied_stepwise_kind", "varied_stepwise_constrained", "two", "four_shot", "random",
]  # fmt: skip


def full_table(run, details):
    """How many of the tasks of a split each arm got right, as the README shows it."""
    splits = [("1", "eval_indist_d1"), *((str(depth), f"eval_comp_d{depth}") for depth in (2, 4, 8, 16))]
    splits += [(f"{depth}*", f"eval_template_d{depth}") for depth in (1, 2, 4, 6)]
    right = details.pivot_table(index="arm", columns="split", values="primary_correct", aggfunc="sum")
    lines = [f"| | {' | '.join(depth for depth, _ in splits)} |", f"|---{'|---' * len(splits)}|"]
    lines += [f"| {run.arm(arm).shown} | {' | '.join(str(int(right.loc[arm, split])) for _, split in splits)} |" for arm in SHOWN]
    return "\n".join(lines)


def test_the_readme_says_what_the_full_run_found():
    from depthstress.report import sections

    readme = (ROOT / "README.md").read_text(encoding="utf-8")
    run = Run("local_full", outputs=FULL.parent)
    details = read_tables(run).details
    assert full_table(run, details) in readme
    assert set(details.groupby(["arm", "split"]).size()) == {60}
    for sentence in sections.answer(details):
        assert sentence in readme


def test_the_full_run_reaches_what_it_was_made_to_show():
    table = read_tables(Run("local_full", outputs=FULL.parent)).summary
    rates = table.set_index(["arm", "template_shift", "depth"]).sort_index()
    standard = rates.loc["full_stepwise_kind", 0]["primary_accuracy_mean"]
    assert (standard[standard.index > 1] >= 0.95).all()
    assert (rates.loc["oracle"]["primary_accuracy_mean"] == 1).all()
    constrained = table[table["arm"].str.endswith("_constrained")].groupby(["template_shift", "depth"])
    assert (constrained["valid_exec_rate_mean"].mean() >= 0.99).all()


@pytest.mark.parametrize("folder", [COMMITTED, FULL])
def test_nothing_committed_names_a_path_of_one_machine(folder):
    for path in folder.rglob("*"):
        if path.suffix in {".json", ".jsonl", ".csv", ".md", ".html", ".ipynb"} and not {"stale", *WRITTEN} & set(path.parts):
            assert not re.search(r"/(root|home|work|tmp)/", path.read_text(encoding="utf-8")), path.name
