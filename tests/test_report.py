"""The report: sentences follow the data, generated text is inert, one file stands alone."""

import re

import pandas as pd
import pytest

from depthstress.analysis import Tables
from depthstress.composition import costs_table, paired_table, survival_table, taught_table
from depthstress.data import make_data
from depthstress.files import write_json
from depthstress.report import Page, sections
from depthstress.report.findings import findings, reworded_by_depth, save_figure, training_curves, written_against_executed
from depthstress.report.html import MAX_SHOWN, inert, table
from depthstress.runs import Run
from depthstress.tables import coverage, detail, metrics, summary

HOSTILE = '<script>alert(1)</script><img src=x onerror=alert(2)> \x1b[31mred \u202eabc \0 =cmd|"/c calc" $x^2$ ' + "y" * 100_000


PUBLISHED_ARMS = ["answer_only", "trace_stack_final", "trace_stack_no_final", "program_stack"]


@pytest.fixture
def run(tmp_path) -> Run:
    """The published arms of suite smoke, in a temporary folder."""
    return Run("smoke", arms=PUBLISHED_ARMS, outputs=tmp_path / "outputs")


def tables(run, right, text=None) -> Tables:
    """Tables of a run where an arm is right as often as `right(arm, split)` says; wrong texts are `text`."""
    make_data(run, 101)
    rows = []
    for arm in run.arms:
        for split in run.suite.splits:
            examples = run.examples(split.name, 101)
            hits = round(right(arm, split) * len(examples))
            for n, example in enumerate(examples):
                written = run.arm(arm).written.target(example) if n < hits else text or "NOTHING"
                generation = {"arm": arm, "text": written, "end": "eos", "new_tokens": 9, "prompt_sha256": "0"}
                rows.append(detail({"suite": "smoke", "run": "smoke"}, run.arm(arm), example, generation, {"PUSH", "ADD", "SUB", "MUL"}))
    details = pd.DataFrame(rows)
    by_cell = metrics(details)
    log = pd.DataFrame(
        [
            {
                "adapter": arm,
                "title": run.arm(arm).taught,
                "format": run.arm(arm).format,
                "training": run.arm(arm).training,
                "seed": 101,
                "step": n,
                "loss": 1 / n,
                "target_tokens": 9,
                "lr": 0.1,
            }
            for arm in run.arms
            if run.arm(arm).adapter
            for n in (1, 2)
        ]
    )
    complete = pd.DataFrame([{"arm": arm, "seed": 101, "generations": 24, "expected": 24} for arm in run.arms])
    empty = pd.DataFrame(columns=["adapter", "title", "seed", "folder", "updates", "last_loss", "sha256"])
    return Tables(
        details,
        by_cell,
        summary(by_cell),
        coverage(details),
        paired_table(details, run.suite.builds_on),
        taught_table(details, run.suite.builds_on),
        survival_table(details),
        costs_table(details),
        log,
        empty,
        complete,
    )


def build(run, data) -> Page:
    page = Page(run, sections.QUESTION)
    sections.opening(page, run, data)
    page.section("Method")
    sections.method(page, run)
    page.section("Figures")
    for finding in findings(run, data):
        page.figure(finding)
    sections.coverage_section(page, run, data)
    page.table(sections.full_table(run, data), "Full table")
    page.table(sections.wrong_generations(data), "Wrong generations", raw=("written", "target"))
    sections.limits(page, run, data)
    sections.provenance(page, run, data)
    return page


def always(value):
    return lambda arm, split: value


def test_the_answer_follows_the_data(run):
    falls = " ".join(sections.answer(tables(run, lambda arm, split: float(split.depth == 1)).details))
    assert "It writes procedures of one operation as a program: 6 of 6 (100%, 95% interval 61% to 100%)" in falls
    assert "With 4 operations that falls to 0 of 6 (0%, 95% interval 0% to 39%)" in falls
    assert "at no depth does this run show a difference from running the program" in falls
    holds = " ".join(sections.answer(tables(run, lambda arm, split: float(arm != "answer_only")).details))
    assert "does not show a loss with depth" in holds
    assert "With 4 operations, running the program does better than answering directly: 6 of 6" in holds
    assert "At greater depths" not in holds
    partly = " ".join(sections.answer(tables(run, lambda arm, split: float(arm != "answer_only" and split.depth == 1)).details))
    assert "With one operation, running the program does better than answering directly" in partly
    assert "At greater depths the intervals overlap, and 6 tasks a depth can't tell the two apart." in partly
    reverse = " ".join(sections.answer(tables(run, lambda arm, split: float(arm == "answer_only")).details))
    assert "It has not fully learned" in reverse
    assert "With 4 operations, answering directly does better than running the program" in reverse


def test_the_figures_say_what_their_data_say(run):
    data = tables(run, lambda arm, split: float(split.depth == 1 and arm == "program_stack"))
    titles = {finding.name: finding for finding in findings(run, data)}
    assert titles["execution_by_depth"].title == "Program falls with depth: 100% at depth 1, 0% at depth 4."
    assert titles["failure_types"].title == "Most wrong programs are too short: 66 of 66."
    assert "“no value: invalid”: 66 of 66" in titles["failure_types"].takeaway
    assert "At no depth do the two intervals separate" in titles["written_against_executed"].takeaway
    assert list(titles) == ["execution_by_depth", "reworded_by_depth", "written_against_executed", "failure_types", "training_curves"]
    perfect = {finding.name: finding for finding in findings(run, tables(run, always(1.0)))}
    assert perfect["failure_types"].title == "Every program was right."
    assert "is not shown to change with depth" in perfect["execution_by_depth"].title


def test_execution_against_writing_is_told_apart(run):
    data = tables(run, always(1.0))
    data.details["final_correct"] = 0
    assert "intervals that do not overlap, at depth 1, 2 and 4" in written_against_executed(data.details).takeaway


def test_what_was_not_run_is_said_so(run):
    run.arms = ["answer_only"]
    data = tables(run, always(1.0))
    assert "no program on the standard requests" in sections.answer(data.details)[0]
    assert "was not run" in written_against_executed(data.details).title
    assert (
        "No arm that writes instructions was evaluated on reworded requests"
        in reworded_by_depth(data.details[data.details["template_shift"] == 0]).title
    )
    assert "No training log" in training_curves(data.training_log.iloc[:0]).title
    page = build(run, data)
    assert "Not run, though the suite has it: trace_stack_final" in page.render()


def test_a_loss_that_is_not_a_number_is_said(run):
    log = pd.DataFrame([{"adapter": "program_stack", "title": "Program", "format": "program_stack", "training": "default", "seed": 101, "step": n, "loss": loss, "target_tokens": 9, "lr": 0.1} for n, loss in
                        enumerate([2.0, float("nan"), float("nan")], 1)])  # fmt: skip
    finding = training_curves(log)
    assert finding.title == "The loss of 1 of 1 adapters is not a number at the end."
    assert "diverged" in finding.takeaway


def test_an_answer_that_beats_execution_is_said(run):
    data = tables(run, always(0.0))
    data.details["final_correct"] = 1
    assert "The model's own answer beats execution" in written_against_executed(data.details).takeaway


def test_an_arm_that_rises_is_not_counted_as_lost(run):
    data = tables(run, lambda arm, split: float((split.depth == 1) == (arm == "answer_only")))
    takeaway = findings(run, data)[0].takeaway
    assert "1 of 4 arms fall (Answer only); 3 of 4 arms rise (Numbered program, with answer; Numbered program; Program)" in takeaway


def test_published_numbers_stand_only_beside_the_same_split(run):
    shallow = run.suite.splits[1].model_copy(update={"depth": 3})
    run.suite = run.suite.model_copy(update={"splits": [run.suite.splits[0], shallow]})
    table = sections.beside_published(run, tables(run, always(1.0))).set_index(["arm", "split"])
    assert table.loc[("Program", "eval_indist_d1"), "published"] == "98.3%"
    assert table.loc[("Program", "eval_comp_d2"), "published"] == "–"


def test_seeds_are_counted_in_the_results(run):
    data = tables(run, always(1.0))
    run.seeds = [1, 2, 3]
    assert sections._seeds(data) == "one seed"


def test_a_manifest_of_an_older_version_is_shown_as_far_as_it_goes(run):
    data = tables(run, always(1.0))
    write_json(run.folder / "manifest.json", {"stages": {"01_data": {"seconds": 1}}})
    assert "not recorded" in build(run, data).render()


def test_one_file_without_any_request(run):
    html = build(run, tables(run, always(0.5))).render()
    assert not re.search(r"""(src|href)\s*=\s*["'](?!#|data:)""", html)
    assert "http" not in re.sub(r"http://www\.w3\.org/[^\"' ]*|http://purl\.org/[^\"' ]*|http://creativecommons\.org/[^\"' ]*", "", html)
    assert "@import" not in html and "url(" not in html.replace("url(#", "")
    assert html.count("<h1") == 1
    assert '<html lang="en">' in html


def test_generated_text_is_inert_wherever_it_stands(run):
    html = build(run, tables(run, always(0.0), text=HOSTILE)).render()
    assert "<script" not in html
    assert "<img" not in html
    assert "\x1b" not in html and "\u202e" not in html and "\0" not in html
    assert "&lt;script&gt;" in html
    assert "y" * (MAX_SHOWN + 1) not in html


@pytest.mark.parametrize(("text", "shown"), [
    ("a<b", "a&lt;b"), ("\x1b[0m", "\\u{1b}[0m"), ("\u202e", "\\u{202e}"), ("two\nlines", "two\nlines"), ("ünï", "ünï"), ("\ud800", "\\u{d800}"),
])  # fmt: skip
def test_inert(text, shown):
    assert inert(text) == shown


def test_tables_escape_cells_and_headings():
    shown = table(pd.DataFrame({"<a>": ["<b>", None], "n": [1.23456, float("nan")]}), "<c>")
    assert "<b>" not in shown and "<a>" not in shown and "<c>" not in shown
    assert "1.235" in shown and "–" in shown


def test_the_same_data_give_the_same_figures(run):
    data = tables(run, always(0.5))
    written = []
    for _ in range(2):
        for finding in findings(run, data):
            save_figure(run, finding)
        written.append({path.name: path.read_bytes() for path in (run.folder / "figures").iterdir()})
    assert written[0] == written[1]
    assert len(written[0]) == 10


def test_the_coverage_sentence_says_when_intervals_overlap():
    data = pd.DataFrame([
        {"wording": "standard", "depth": 6, "every_opcode_trained": 1, "n": 5, "exec_accuracy": 0.8, "low": 0.4, "high": 0.9},
        {"wording": "standard", "depth": 6, "every_opcode_trained": 0, "n": 5, "exec_accuracy": 0.2, "low": 0.1, "high": 0.6},
    ])  # fmt: skip
    assert sections.coverage_sentence(data, "Here") == (
        "Here, at depth 6: 80.0% of 5 (95% interval 40% to 90%) where every opcode was trained, "
        "20.0% of 5 (95% interval 10% to 60%) where one was not. The intervals overlap."
    )
    assert "no depth has both" in sections.coverage_sentence(data.iloc[:1], "Here")
