"""Bootstrap, paired tests, coverage split: known values, degenerate cases, and simulations of what they promise."""

import time

import numpy as np
import pandas as pd
import pytest
from scipy.stats import binomtest
from statsmodels.stats.contingency_tables import mcnemar

from depthstress import rescore
from depthstress.intervals import paired_difference
from depthstress.statistics import bootstrap_difference, bootstrap_rate, coverage_split, paired
from depthstress.tables import rate_of


def rows(right, arm="a", seeds=1, **columns) -> pd.DataFrame:
    """A generation for every 0/1 of `right`, dealt to the seeds in equal blocks; every arm has the same tasks."""
    right = np.asarray(right, int)
    per_seed = len(right) // seeds
    return pd.DataFrame({"arm": arm, "seed": np.arange(len(right)) // per_seed, "example_id": np.arange(len(right)) % per_seed,
                         "primary_correct": right, "exec_correct": right, **columns})  # fmt: skip


def many(generator, trials, seeds=5, examples=12, rate=0.5, spread=0.0, **columns) -> pd.DataFrame:
    """Trials of a study each: every seed has its own rate, with this standard deviation."""
    rates = np.clip(generator.normal(rate, spread, (trials, seeds, 1)), 0, 1)
    right = generator.random((trials, seeds, examples)) < rates
    trial, seed, example = np.indices(right.shape).reshape(3, -1)
    return pd.DataFrame(
        {"trial": trial, "arm": "a", "seed": seed, "example_id": example, "primary_correct": right.ravel().astype(int), **columns}
    )


def test_the_bootstrap_draws_seeds_and_says_so():
    table = bootstrap_rate(rows([1] * 12 + [0] * 12 + [1] * 6 + [0] * 6, seeds=3)).iloc[0]
    assert (table["n"], table["seeds"], table["rate"], table["resampled"]) == (36, 3, 0.5, "seeds")
    assert (table["low"], table["high"]) == (0, 1)  # three seeds: from the worst to the best
    wide = bootstrap_rate(rows([1, 0, 1, 1] * 3 + [0, 0, 1, 0] * 3, seeds=2), within=True).iloc[0]
    narrow = bootstrap_rate(rows([1, 0, 1, 1] * 3 + [0, 0, 1, 0] * 3, seeds=2)).iloc[0]
    assert wide["resampled"] == "seeds and examples"
    assert wide["low"] < narrow["low"] == 0.25 and wide["high"] > narrow["high"] == 0.75


def test_the_bootstrap_is_deterministic_and_does_not_depend_on_the_order_of_rows():
    details = many(np.random.default_rng(3), 4, spread=0.2)
    first = bootstrap_rate(details, ["trial"])
    pd.testing.assert_frame_equal(first, bootstrap_rate(details.sample(frac=1, random_state=0), ["trial"]))
    alone = bootstrap_rate(details[details["trial"] == 2], ["trial"])
    pd.testing.assert_frame_equal(first[first["trial"] == 2].reset_index(drop=True), alone)  # cells don't touch each other


def test_with_one_seed_examples_are_drawn():
    details = rows([1] * 30 + [0] * 30)
    table = bootstrap_rate(details).iloc[0]
    score = rate_of(details, "primary_correct")
    assert table["resampled"] == "examples"
    assert (table["low"], table["high"]) == (pytest.approx(score.low, abs=0.03), pytest.approx(score.high, abs=0.03))


def test_seeds_that_agree_to_the_digit_are_not_taken_for_certainty():
    table = bootstrap_rate(rows([1, 0, 1, 0] * 15, seeds=5)).iloc[0]
    assert table["resampled"] == "examples"
    assert table["high"] - table["low"] > 0.2


@pytest.mark.parametrize("value", [0, 1])
def test_all_right_or_all_wrong_gives_the_score_interval(value):
    details = rows([value] * 60, seeds=5)
    table = bootstrap_rate(details).iloc[0]
    score = rate_of(details, "primary_correct")
    assert (table["low"], table["high"], table["resampled"]) == (score.low, score.high, "nothing")
    pair = pd.concat([details, details.assign(arm="b", primary_correct=1 - value)])
    sure = bootstrap_difference(pair, "a", "b").iloc[0]
    assert (sure["difference"], sure["resampled"]) == (2 * value - 1, "nothing")
    assert sure["high"] - sure["low"] > 0.03


def test_a_difference_keeps_the_arms_paired_and_counts_what_it_drops():
    random = np.random.default_rng(0)
    first = rows(random.random(60) < np.repeat([0.2, 0.4, 0.6, 0.8, 0.9], 12), seeds=5)
    second = first.assign(arm="b", primary_correct=np.where(np.arange(60) % 12 == 0, 0, first["primary_correct"]))
    alone = rows([1] * 12, arm="b").assign(seed=9)
    table = bootstrap_difference(pd.concat([first, second, alone]), "a", "b").iloc[0]
    assert (table["n"], table["dropped"], table["seeds"]) == (120, 12, 5)
    assert table["difference"] == pytest.approx(first["primary_correct"].mean() - second["primary_correct"].mean())
    assert table["high"] - table["low"] < 0.1 < table["score_high"] - table["score_low"]  # seeds differ much, the arms within a seed little
    nothing = bootstrap_difference(pd.concat([first, alone]), "a", "b").iloc[0]
    assert (nothing["seeds"], nothing["dropped"]) == (0, 72)


def test_the_bootstrap_covers_the_truth_about_as_often_as_it_can():
    random = np.random.default_rng(11)
    for spread, resampled in ((0.15, ("seeds",)), (0.0, ("seeds", "examples"))):
        table = bootstrap_rate(many(random, 400, rate=0.5, spread=spread), ["trial"], replicates=2000)
        assert set(table["resampled"]) <= set(resampled)
        assert 0.88 <= ((table["low"] <= 0.5) & (table["high"] >= 0.5)).mean() <= 0.98
        score = ((table["score_low"] <= 0.5) & (table["score_high"] >= 0.5)).mean()
        assert 0.85 <= score <= 0.99


def test_mcnemar_and_the_interval_of_a_published_example():
    """Complete response before and after consolidation therapy, Cavo et al. (2012), as analysed by Fagerland, Lydersen &
    Laake, Statistical Analysis of Contingency Tables (2017), chapter 8: P = 0.0525, -0.0621 (-0.1240 to -0.0054)."""
    first = rows([1] * 65 + [0] * 96)
    second = rows([1] * 59 + [0] * 6 + [1] * 16 + [0] * 80, arm="b")
    table = paired(pd.concat([first, second]), [("a", "b")]).iloc[0]
    assert (table["n"], table["b"], table["c"], table["dropped"]) == (161, 6, 16, 0)
    assert (table["rate_first"], table["rate_second"]) == (65 / 161, 75 / 161)
    assert table["p"] == pytest.approx(0.052479, abs=1e-6)
    assert table["difference"] == pytest.approx(-0.0621, abs=5e-5)
    assert (table["low"], table["high"]) == (pytest.approx(-0.1240, abs=5e-5), pytest.approx(-0.0054, abs=5e-5))


def test_mcnemar_agrees_with_scipy_and_statsmodels():
    random = np.random.default_rng(5)
    first = many(random, 40, seeds=2)
    second = many(random, 40, seeds=2, rate=0.7).assign(arm="b")
    for row in paired(pd.concat([first, second]), [("a", "b")], ["trial"]).itertuples():
        both = round(row.rate_first * row.n) - row.b
        assert row.p == pytest.approx(mcnemar([[both, row.b], [row.c, row.n - both - row.b - row.c]], exact=True).pvalue)
        if row.b + row.c:
            assert row.p == pytest.approx(binomtest(row.b, row.b + row.c).pvalue)


def test_holm_by_hand():
    """Discordant pairs 10 to 0, 8 to 0, 6 to 0, 1 to 1: p = 2^-9, 2^-7, 2^-5, 1, times 4, 3, 2, 1, and never falling."""
    parts = []
    for cell, (b, c) in enumerate([(10, 0), (8, 0), (6, 0), (1, 1)]):
        parts += [rows([1] * b + [0] * (12 - b), cell=cell), rows([0] * b + [1] * c + [0] * (12 - b - c), arm="b", cell=cell)]
    table = paired(pd.concat(parts), [("a", "b")], ["cell"])
    assert list(table["p"]) == pytest.approx([2**-9, 2**-7, 2**-5, 1])
    assert list(table["p_holm"]) == pytest.approx([4 * 2**-9, 3 * 2**-7, 2 * 2**-5, 1])


def test_example_ids_of_different_seeds_are_different_tasks():
    first = rows([1, 0, 1, 0], seeds=2)
    second = rows([0, 1, 0, 1], arm="b", seeds=2).iloc[::-1]
    table = paired(pd.concat([first, second]), [("a", "b")]).iloc[0]
    assert (table["n"], table["b"], table["c"]) == (4, 2, 2)


def test_unpaired_rows_are_dropped_and_counted_and_a_pair_without_tasks_stays_in_the_table():
    details = pd.concat([rows([1] * 12, cell=0), rows([0] * 8, arm="b", cell=0), rows([1] * 5, cell=1)])
    table = paired(details, [("a", "b"), ("a", "c")], ["cell"])
    assert list(table[["n", "dropped", "b", "c"]].itertuples(index=False, name=None)) == [
        (8, 4, 8, 0),
        (0, 5, 0, 0),
        (0, 12, 0, 0),
        (0, 5, 0, 0),
    ]
    assert table["p"].isna().tolist() == table["p_holm"].isna().tolist() == table["difference"].isna().tolist() == [False, True, True, True]
    assert table.loc[0, "p_holm"] == pytest.approx(2**-7)  # a family of one


def test_decodings_can_be_paired_and_a_task_that_occurs_twice_is_refused():
    free, constrained = rows([1, 0, 1, 0], decoding="free"), rows([1, 1, 1, 1], decoding="constrained")
    table = paired(pd.concat([free, constrained]), [("constrained", "free")], ["arm"], of="decoding").iloc[0]
    assert (table["arm"], table["b"], table["c"]) == ("a", 2, 0)
    with pytest.raises(ValueError, match="occurs twice; add the column"):
        paired(pd.concat([free, constrained, rows([0] * 4, arm="b", decoding="free")]), [("a", "b")])


def test_shuffled_arms_are_rejected_no_more_often_than_promised():
    random = np.random.default_rng(2)
    details = pd.concat([many(random, 600, rate=0.5, spread=0.2), many(random, 600, rate=0.5).assign(arm="b")], ignore_index=True)
    swap = random.random(600 * 60) < 0.5
    outcomes = details["primary_correct"].to_numpy().reshape(2, -1)
    details["primary_correct"] = np.where(swap, outcomes[::-1], outcomes).ravel()
    table = paired(details, [("a", "b")], ["trial"])
    assert 0.01 <= (table["p"] < 0.05).mean() <= 0.06  # an exact test stays below its level
    assert 0.93 <= ((table["low"] <= 0) & (table["high"] >= 0)).mean() <= 0.98
    assert (table["p_holm"] < 0.05).sum() <= 1


def test_the_paired_interval_covers_a_true_difference():
    random = np.random.default_rng(8)
    outcomes = random.multinomial(24, [0.5, 0.25, 0.05, 0.2], 1500)
    covered = [low <= 0.2 <= high for low, high in (paired_difference(b, c, 24) for _, b, c, _ in outcomes.tolist())]
    assert 0.93 <= np.mean(covered) <= 0.97


@pytest.mark.parametrize(("depth", "trained", "n_trained", "untrained", "n_untrained"), [
    (2, 0.871, 147, 0.091, 33), (3, 0.932, 132, 0.083, 48), (4, 0.943, 123, 0.088, 57), (6, 0.842, 120, 0.100, 60),
])  # fmt: skip
def test_the_published_coverage_table(published, depth, trained, n_trained, untrained, n_untrained):
    details = rescore.rescored(rescore.read_published(published, "details.csv"), lenient=True)
    programs = details[details["length"] != ""]
    split = coverage_split(programs).set_index(["template_shift", "depth"]).loc[(0, depth)]
    assert (split["n_trained"], split["n_untrained"]) == (n_trained, n_untrained)
    assert (round(split["rate_trained"], 3), round(split["rate_untrained"], 3)) == (trained, untrained)
    assert 0.5 < split["low"] < split["difference"] < split["high"] < 0.93
    reworded = coverage_split(programs, ["template_shift"]).set_index("template_shift").loc[1]
    assert (round(reworded["rate_trained"], 3), reworded["n_trained"]) == (0.525, 423)
    assert (round(reworded["rate_untrained"], 3), reworded["n_untrained"]) == (0.077, 117)


def test_a_cell_without_one_side_has_no_difference():
    table = coverage_split(rows([1, 0, 1], template_shift=0, depth=1, coverage=1)).iloc[0]
    assert (table["n_trained"], table["n_untrained"]) == (3, 0)
    assert np.isnan(table["difference"]) and np.isnan(table["rate_untrained"])


def test_shuffled_coverage_makes_a_difference_about_as_often_as_promised():
    random = np.random.default_rng(4)
    details = many(random, 400, coverage=0)
    details["coverage"] = (random.random(len(details)) < 0.6).astype(int)
    table = coverage_split(details, ["trial"], "primary_correct")
    assert 0.01 <= ((table["low"] > 0) | (table["high"] < 0)).mean() <= 0.07


def test_what_is_missing_is_named():
    with pytest.raises(ValueError, match="details lack the columns depth, coverage"):
        coverage_split(rows([1], template_shift=0))
    with pytest.raises(ValueError, match="without a value in depth"):
        coverage_split(rows([1, 0], template_shift=0, depth=[1, None], coverage=1))


def test_fifty_thousand_rows_take_seconds():
    details = many(np.random.default_rng(0), 100, examples=50, coverage=1)
    both = pd.concat([details, details.assign(arm="b", coverage=0)])
    begun = time.process_time()
    assert len(bootstrap_difference(both, "a", "b", ["trial"], replicates=2000)) == 100
    assert len(paired(both, [("a", "b")], ["trial"])) == len(coverage_split(both, ["trial"], "primary_correct")) == 100
    assert time.process_time() - begun < 10
