"""Tables: means, deviations, the published columns."""

import pandas as pd
import pytest

from depthstress.tables import coverage, metrics, rate_of, summary


def details(**changes) -> pd.DataFrame:
    """Two seeds of two generations in one cell; seed 1 has one right, seed 2 both."""
    base = {
        "suite": "s", "run": "r", "arm": "program_stack", "format": "program_stack", "writer": "adapter", "training": "default", "decoding": "free", "trained": 1, "split": "eval_comp_d2", "depth": 2, "template_shift": 0, "coverage": 1,
        "exec_correct": 0, "valid_exec": 0, "final_correct": 0, "has_final": 0, "exact_program": 0, "several_finals": 0, "end": "eos",
        "new_tokens": 10, "prefix_accuracy": 0.5, "length": "under", "failure_type": "invalid_or_unexecutable",
    }  # fmt: skip
    right = (
        base | {"exec_correct": 1, "valid_exec": 1, "length": "exact", "failure_type": "correct_exact", "prefix_accuracy": 1.0} | changes
    )
    rows = [base | {"seed": 1, "family": "string"}, right | {"seed": 1, "family": "number"}, right | {"seed": 2, "family": "string"},
            right | {"seed": 2, "family": "number", "end": "limit"}]  # fmt: skip
    return pd.DataFrame([row | {"primary_correct": row["exec_correct"]} for row in rows])


def test_metrics_are_means_over_a_cell():
    table = metrics(details())
    assert list(table["primary_accuracy"]) == [0.5, 1.0]
    assert list(table["failure_invalid_or_unexecutable"]) == [0.5, 0.0]
    assert list(table["string_accuracy"]) == [0.0, 1.0]
    assert list(table["truncated_rate"]) == [0.0, 0.5]
    assert list(table["under_rate"]) == [0.5, 0.0]
    assert table["date_accuracy"].isna().all()


def test_the_summary_is_over_seeds_with_n_minus_1():
    row = summary(metrics(details())).iloc[0]
    assert (row["runs"], row["n_total"]) == (2, 4)
    assert row["primary_accuracy_mean"] == 0.75
    assert row["primary_accuracy_std"] == pytest.approx(0.5 / 2**0.5)
    assert row["primary_accuracy_low"] < 0.75 < row["primary_accuracy_high"]
    assert row["failure_invalid_or_unexecutable_mean"] == 0.25


def test_the_published_tables_leave_absent_failures_out_of_their_means():
    row = summary(metrics(details(), absent_failure=None)).iloc[0]
    assert row["failure_invalid_or_unexecutable_mean"] == 0.5
    assert row["failure_invalid_or_unexecutable_std"] == 0.0


def test_one_seed_has_no_deviation_to_speak_of():
    row = summary(metrics(details().query("seed == 1"))).iloc[0]
    assert row["primary_accuracy_std"] == 0.0


def test_coverage_is_split_and_answers_are_left_out():
    frame = details()
    frame.loc[0, "coverage"] = 0
    table = coverage(pd.concat([frame, frame.assign(arm="answer_only", format="answer_only", exec_correct=0)]))
    assert table[["every_opcode_trained", "n", "exec_accuracy"]].values.tolist() == [[1, 3, 1.0], [0, 1, 0.0]]
    assert coverage(frame.assign(arm="answer_only", format="answer_only")).empty
    assert coverage(frame.assign(arm="oracle", writer="oracle")).empty


def test_rates_have_seeds_as_clusters():
    shown = rate_of(details(), "exec_correct")
    assert (shown.hits, shown.n) == (3, 4)


def test_ours_have_every_published_column(published):
    for name, ours in (("metrics.csv", metrics(details())), ("summary_by_arm.csv", summary(metrics(details())))):
        theirs = set(pd.read_csv(published / name, nrows=1).columns)
        assert theirs <= set(ours.columns), name
