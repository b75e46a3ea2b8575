"""The published run, scored again; and that a planted difference is found."""

import pandas as pd
import pytest

from depthstress import rescore
from depthstress.published import published_coverage, published_summary
from depthstress.tables import coverage, metrics, summary


def test_all_rows_and_the_whole_summary_agree(published, capsys):
    assert rescore.main([str(published)]) == 0
    printed = capsys.readouterr().out
    assert "1,920 of 1,920 rows identical" in printed
    assert "32 of 32 rows equal to the printed digit" in printed
    assert "strict reader: 1 program(s) scored otherwise" in printed
    assert "PUSH beta:6" in printed
    for line in (
        "standard 2 87.1% (147) 9.1% (33) +78.0",
        "held out all 52.5% (423) 7.7% (117)",
        "coverage an opcode never trained, against all trained 0.0171 (0.00875 to 0.0333)",
        "eval_comp_d6 +6.7, p 1 +5.0, p 1 +63.3, p 3.5e-10",
    ):
        assert line in " ".join(printed.split())


def test_a_changed_score_and_a_changed_summary_are_found(published, tmp_path, capsys):
    details = pd.read_csv(published / "details.csv", dtype=str, keep_default_na=False)
    details.loc[777, "exec_correct"] = "1" if details.loc[777, "exec_correct"] == "0" else "0"
    details.to_csv(tmp_path / "details.csv", index=False)
    table = pd.read_csv(published / "summary_by_arm.csv", dtype=str, keep_default_na=False)
    table.loc[0, "primary_accuracy_mean"] = "0.4167"
    table.to_csv(tmp_path / "summary_by_arm.csv", index=False)
    assert rescore.main([str(tmp_path)]) == 1
    printed = capsys.readouterr().out
    assert "1,919 of 1,920 rows identical" in printed
    assert "31 of 32 rows equal" in printed
    assert "primary_accuracy_mean" in printed


def test_a_folder_without_the_records_says_what_it_must_hold(tmp_path):
    with pytest.raises(SystemExit, match="details.csv is missing; DIR must hold details.csv and summary_by_arm.csv"):
        rescore.main([str(tmp_path)])


def test_the_figures_kept_in_the_project_are_those_of_the_published_run(published):
    scored = rescore.rescored(rescore.read_published(published, "details.csv"), lenient=True)
    ours = coverage(scored).assign(depth=lambda t: t["depth"].astype(str)).round(6)
    pd.testing.assert_frame_equal(published_coverage(), ours, check_dtype=False)
    table = summary(metrics(scored, absent_failure=None)).set_index(["arm", "split"])
    kept = published_summary().set_index(["arm", "split"])
    assert len(kept) == 32
    for column in kept:
        values = table.loc[kept.index, column].astype(float)
        assert values.to_numpy() == pytest.approx(kept[column].astype(float).to_numpy(), abs=1e-6), column


@pytest.mark.parametrize(("depth", "trained", "n", "accuracy"), [
    ("2", 1, 147, 0.871), ("2", 0, 33, 0.091), ("3", 1, 132, 0.932), ("3", 0, 48, 0.083), ("4", 1, 123, 0.943), ("4", 0, 57, 0.088),
    ("6", 1, 120, 0.842), ("6", 0, 60, 0.100),
])  # fmt: skip
def test_the_published_coverage_table(depth, trained, n, accuracy):
    table = published_coverage()
    row = table[(table["wording"] == "standard") & (table["depth"] == depth) & (table["every_opcode_trained"] == trained)].iloc[0]
    assert (row["n"], round(row["exec_accuracy"], 3)) == (n, accuracy)
