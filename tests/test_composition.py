"""The controlled experiment's comparisons, figures and sentences, on details whose rates are set by hand."""

from types import SimpleNamespace

import pandas as pd
import pytest

from depthstress.composition import MEASURES, comparisons, costs_table, paired_table, taught_table
from depthstress.composition_figures import coverage, decodings, survival
from depthstress.figures import shown_arms
from depthstress.report.composition import compared, composition_findings
from depthstress.report.headline import answer
from depthstress.runs import Run
from depthstress.suites import load_suite

SUITE = load_suite("local_full")
TASKS = 40


def details_of(rates, seeds=(101, 202), early=None):
    """A row an arm, seed, split (depths 1 and 4, both wordings) and task: `rates[arm]` of them are right; of the wrong ones of an
    arm in `early` all stop early."""
    rows = []
    for name, rate in rates.items():
        arm = SUITE.arm(name)
        for seed in seeds:
            for depth, shift in ((1, 0), (4, 0), (1, 1), (4, 1)):
                for n in range(TASKS):
                    right = int(n < rate * TASKS * (0.5 if shift else 1))
                    rows.append({
                        "arm": name, "title": arm.shown, "format": arm.format, "writer": arm.writer, "training": arm.training, "decoding": arm.decoded,
                        "seed": seed, "split": f"{'template' if shift else 'comp'}_d{depth}", "depth": depth, "template_shift": shift,
                        "example_id": f"{depth}-{shift}-{n}", "coverage": int(n % 2 == 0 or arm.training != "default"), "trained": 1,
                        "primary_correct": right, "exec_correct": right, "length": "exact" if right else "under" if name in (early or ()) else "over",
                        "failure_type": "correct_exact" if right else "wrong_constant_or_argument" if n % 4 else "wrong_op_order_or_choice",
                        "end": "eos" if right or n % 2 else "failed",
                        "first_divergence": float("nan") if right else 1 + n % (depth + 1), "gold_instructions": depth + 1, "instructions": depth + 1 if right else 2,
                    })  # fmt: skip
    return pd.DataFrame(rows)


FULL = {
    "program_stack": 0.3,
    "full": 0.5,
    "full_stepwise_kind": 1.0,
    "shuffled": 0.0,
    "two": 0.5,
    "two_punished": 0.5,
    "random": 0.0,
    "zero_shot": 0.1,
}


@pytest.fixture(scope="module")
def details():
    return details_of(FULL, early=["two"])


def test_every_comparison_changes_one_factor(details):
    assert SUITE.builds_on == {"full": "default", "varied": "full", "two": "full", "two_punished": "two", "shuffled": "full"}
    assert comparisons(details, SUITE.builds_on) == [
        ("decoding", "full_stepwise_kind", "full"), ("training", "full", "program_stack"), ("training", "shuffled", "full"),
        ("training", "two", "full"), ("training", "two_punished", "two"),
    ]  # fmt: skip


def test_the_paired_table_has_each_measure_and_both_intervals(details):
    table = paired_table(details, SUITE.builds_on)
    assert len(table) == 5 * 4 * len(MEASURES)
    row = table[(table["first"] == "full_stepwise_kind") & (table["split"] == "comp_d4") & (table["measure"] == "right")].iloc[0]
    assert (row.n, row.rate_first, row.rate_second, row.difference) == (80, 1.0, 0.5, 0.5)
    assert row.low < 0.5 < row.high and row.p_holm < 1e-6
    assert row.low_seeds <= 0.5 <= row.high_seeds
    stops = table[(table["first"] == "two_punished") & (table["split"] == "comp_d4") & (table["measure"] == "stops early")].iloc[0]
    assert stops.difference == -0.5  # half of `two` stops early, none of the punished ones
    alone = paired_table(details[details["seed"] == 101], SUITE.builds_on)
    assert alone["low_seeds"].isna().all() and alone["low"].notna().all()
    none = paired_table(details[details["arm"] == "random"], SUITE.builds_on)
    assert none.empty and list(none) == list(table)


def test_the_sentences_say_where_arms_differ(details):
    said = compared(Run("local_full"), paired_table(details, SUITE.builds_on))
    assert said[0] == (
        "Program (trained full, stepwise, sees the kind) against Program (trained full), right results: of 4 cells significantly more in 4 "
        "(depth 1: +50, depth 4: +50, depth 1, held out: +25, depth 4, held out: +25); +25 to +50 points."
    )
    (nothing,) = [s for s in said if s.startswith("Program (trained two punished) against Program (trained two), right results")]
    assert nothing.endswith("of 4 cells none differs significantly; +0 to +0 points.")
    (fewer,) = [s for s in said if s.startswith("Program (trained two punished) against Program (trained two), programs that stop early")]
    assert "significantly less in 4" in fewer


def test_what_costs_what_leaves_controls_out(details):
    table = costs_table(details)
    assert set(table["factor"]) == {"depth", "coverage", "template_shift", "decoding", "training"}
    training = table[table["factor"] == "training"]
    assert not training["contrast"].str.contains("shuffled").any()
    wording = table[table["factor"] == "template_shift"].iloc[0]
    assert wording.odds_ratio < 1 and wording.points < 0
    assert costs_table(details[details["arm"] == "random"]).empty


def test_what_teaching_more_gains_is_split_by_what_was_taught_before(details):
    table = taught_table(details, SUITE.builds_on)
    assert set(zip(table["first"], table["second"])) == {("full", "program_stack")}
    assert (table["n"] == TASKS).all() and len(table) == 2 * 4  # two seeds' tasks, half of them with an opcode that was missing
    assert list(table["depth"]) == [1, 4] * 4
    deep = table[(table["depth"] == 4) & (table["template_shift"] == 0)].set_index("covered")
    assert deep.loc[0, "difference"] == deep.loc[1, "difference"] == pytest.approx(0.2)
    assert taught_table(details[details["arm"] != "full"], SUITE.builds_on).empty


def test_the_coverage_figure_joins_its_points_by_depth(details):
    shuffled = details.sample(frac=1, random_state=1)
    figure, _ = coverage(shuffled, taught_table(details, SUITE.builds_on))
    for axes in figure.axes:
        lines = [list(map(round, line.get_xdata())) for line in axes.lines if line.get_linestyle() == "-"]
        assert lines == [[1, 4], [1, 4]]


def test_too_many_arms_for_a_figure_leave_the_published_ones():
    many = details_of({arm: 0.5 for arm in ("program_stack", "answer_only", "full", "varied", "two", "shuffled", "program_constrained")})
    assert set(shown_arms(many)["arm"]) == {"program_stack", "answer_only"}
    assert len(shown_arms(many[many["arm"] != "two"])) == len(many) * 6 / 7


def test_the_figures_draw_what_they_return(details):
    for figure, table in (decodings(details), survival(details), coverage(details, taught_table(details, SUITE.builds_on))):
        assert len(table) and figure.axes
    figure, table = decodings(details)
    assert set(table["training"]) == {"full"} and set(table["held_out"]) == {0, 1}
    assert [axes.get_title("left") or axes.get_title() for axes in figure.axes] == [
        "taught “full”, standard wording",
        "taught “full”, held-out wording",
    ]


def test_findings_follow_the_arms_that_there_are(details):
    def tables(part):
        return SimpleNamespace(details=part, costs=costs_table(part), taught=taught_table(part, SUITE.builds_on))

    def names(part):
        return [finding.name for finding in composition_findings(tables(part))]

    assert names(details) == ["decodings", "coverage", "survival", "costs"]
    assert names(details[details["arm"].isin(["program_stack"])]) == []
    assert names(details[details["arm"].isin(["program_stack", "full"])]) == ["coverage", "survival", "costs"]
    found = composition_findings(tables(details))
    assert "one step at a time gets 80 of 80" in found[0].takeaway and "the intervals are apart" in found[0].takeaway


def test_the_answer_names_what_one_step_at_a_time_gets(details):
    (said,) = [sentence for sentence in answer(details) if "one at a time" in sentence]
    assert "(training “full”) gets 80 of 80 (100%" in said and "of procedures of 4 operations" in said
    assert "the same adapter gets 40 of 80 (50%" in said and said.endswith(").")
    assert not any("one at a time" in sentence for sentence in answer(details[details["arm"] != "full"]))


def test_wrong_steps_and_the_loop_without_oracle_are_explained_by_counts():
    details = details_of({"program_stack": 0.5, "full_stepwise_kind": 0.5, "full_next": 0.5}, early=["full_next"])
    takeaway = next(found for found in composition_findings(SimpleNamespace(
        details=details, costs=costs_table(details), taught=taught_table(details, SUITE.builds_on))) if found.name == "decodings").takeaway  # fmt: skip
    # of 40 tasks a quarter is right in held-out wording; of the 30 others every fourth has another instruction: 7, in 2 depths and 2 seeds
    assert (
        "of 120 wrong programs 28 have another instruction where gold has its own, 92 have the right instructions with other operands."
        in takeaway
    )
    assert "right in 40 of 80 (50%" in takeaway and "at depth 1 and 40 of 80" in takeaway
    assert (
        "of 80 wrong ones at all depths 40 said END too early (40 of these after one operation), 40 wrote an instruction that can't be carried out."
        in takeaway
    )
    _, table = decodings(details)
    assert set(table["decoding"]) == {"stepwise_kind", "next_instruction"}
