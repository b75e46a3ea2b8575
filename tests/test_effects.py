"""What costs what: known values, separation, and odds ratios that were put in."""

import numpy as np
import pandas as pd
import pytest
import statsmodels.api as sm
from scipy.special import expit
from scipy.stats import norm

from depthstress import rescore
from depthstress.effects import firth, separating, what_costs_what

ARMS = ("a", "b", "c")


def study(random, shared=0.5, seeds=5, examples=32, **odds) -> pd.DataFrame:
    """Three arms on the same tasks; `odds` are log odds ratios. A task's outcomes share a normal variable, so that they
    depend on each other while the rate of each generation stays what the model says."""
    seed, example = np.indices((seeds, examples)).reshape(2, -1)
    tasks = pd.DataFrame({"seed": seed, "example_id": example, "depth": np.array([1, 2, 4, 8])[example % 4], "template_shift": example // 4 % 2,
                          "coverage": (random.random(len(seed)) < 0.7).astype(int), "luck": random.normal(size=len(seed))})  # fmt: skip
    details = pd.concat([tasks.assign(arm=arm, decoding="free" if arm == "a" else "stepwise") for arm in ARMS], ignore_index=True)
    linear = 1.0 + odds.get("depth", 0) * np.log2(details["depth"]) + odds.get("coverage", 0) * (1 - details["coverage"])
    linear += odds.get("template_shift", 0) * details["template_shift"] + odds.get("decoding", 0) * (details["decoding"] == "stepwise")
    luck = np.sqrt(shared) * details["luck"] + np.sqrt(1 - shared) * random.normal(size=len(details))
    return details.assign(exec_correct=(norm.cdf(luck) < expit(linear)).astype(int))


def of(table: pd.DataFrame, factor: str) -> pd.Series:
    return table[table["factor"] == factor].iloc[0]


def test_firth_of_one_factor_adds_a_half_to_every_cell():
    """In a saturated model the penalty is half an observation in each cell (Firth, 1993, section 3; Heinze & Schemper, 2002)."""
    x = np.array([[1.0, 0], [1, 1]])
    for hits in ([8, 3], [8, 0], [12, 0], [0, 0]):
        beta, _ = firth(x, np.array(hits), np.array([12, 10]))
        odds = (np.array(hits) + 0.5) / (np.array([12, 10]) - hits + 0.5)
        assert beta == pytest.approx([np.log(odds[0]), np.log(odds[1] / odds[0])], abs=1e-6)


def test_with_much_data_it_is_the_clustered_logistic_regression_of_statsmodels():
    details = study(np.random.default_rng(0), examples=800, depth=-0.5, coverage=-1.5)
    table = what_costs_what(details, factors=("depth", "coverage", "template_shift"))
    x = sm.add_constant(np.column_stack([np.log2(details["depth"]), 1 - details["coverage"], details["template_shift"]]))
    task = details.groupby(["seed", "example_id"]).ngroup()
    fit = sm.Logit(details["exec_correct"], x).fit(disp=0, cov_type="cluster", cov_kwds={"groups": task})
    assert np.log(table["odds_ratio"]).to_numpy() == pytest.approx(fit.params[1:].to_numpy(), abs=5e-3)
    errors = np.log(table["high"] / table["low"]) / 2 / 1.96
    assert errors.to_numpy() == pytest.approx(fit.bse[1:].to_numpy(), rel=0.01)


def test_points_are_the_differences_of_rates_in_a_balanced_design():
    details = pd.DataFrame({"seed": np.arange(200) % 5, "example_id": np.arange(200), "depth": 1, "coverage": 1, "template_shift": np.arange(200) // 100,
                            "exec_correct": np.r_[np.arange(100) < 90, np.arange(100) < 40].astype(int)})  # fmt: skip
    table = what_costs_what(details)
    shift = of(table, "template_shift")
    assert shift["points"] == pytest.approx(-50, abs=0.6)
    assert shift["points_low"] < -50 < shift["points_high"]
    assert shift["high"] < 1
    assert of(table, "depth")["estimated"] == "no: it is the same in every row"
    assert "decoding" not in set(table["factor"])


def test_separation_is_found_penalised_and_said():
    details = study(np.random.default_rng(1))
    details.loc[details["coverage"] == 0, "exec_correct"] = 0
    table = what_costs_what(details)
    covered = of(table, "coverage")
    assert covered["estimated"].startswith("penalised")
    assert np.isfinite(covered[["odds_ratio", "low", "high", "p", "points"]].astype(float)).all()
    assert covered["low"] < covered["odds_ratio"] < covered["high"] < 0.1 and covered["p"] < 1e-6
    assert np.isnan(covered["points_low"])
    assert (table.loc[table["factor"] != "coverage", "estimated"] == "yes").all()


def test_the_profile_interval_is_that_of_another_implementation():
    """0 of 12 right against 8 of 12: limits and p of firthmodels 0.8.2 (`FirthLogisticRegression`, profile likelihood)."""
    details = pd.DataFrame({"seed": 1, "example_id": range(24), "depth": 1, "coverage": 1, "template_shift": [0] * 12 + [1] * 12,
                            "exec_correct": [1] * 8 + [0] * 16})  # fmt: skip
    shift = of(what_costs_what(details), "template_shift")
    assert np.log(shift["odds_ratio"]) == pytest.approx(np.log(0.5 / 12.5) - np.log(8.5 / 4.5), abs=1e-6)
    assert (np.log(shift["low"]), np.log(shift["high"])) == (pytest.approx(-8.793785, abs=1e-4), pytest.approx(-1.475312, abs=1e-4))
    assert shift["p"] == pytest.approx(0.00039999, rel=1e-3)


def test_separation_by_two_factors_together_is_found():
    x = np.array([[1.0, 0, 0], [1, 0, 1], [1, 1, 0], [1, 1, 1]])
    assert not separating(x, np.array([3, 2, 2, 1]), np.array([4, 4, 4, 4])).any()
    assert separating(x, np.array([4, 2, 2, 0]), np.array([4, 4, 4, 4])).all()  # quasi-complete
    assert separating(x, np.array([2, 2, 0, 0]), np.array([4, 4, 4, 4])).tolist() == [False, True, False]


def test_what_the_rows_cannot_tell_is_said():
    details = study(np.random.default_rng(2))
    same = what_costs_what(details.assign(copy=details["template_shift"].map({0: "no", 1: "yes"})), factors=("template_shift", "copy"))
    assert same["estimated"].tolist() == ["yes", "no: the factors before it determine it"]
    assert same.loc[1, ["odds_ratio", "low", "high", "p", "points"]].isna().all()
    assert set(what_costs_what(details.assign(exec_correct=0))["estimated"]) == {"no: every row is wrong"}
    assert set(what_costs_what(details.assign(exec_correct=1))["estimated"]) == {"no: every row is right"}
    assert of(what_costs_what(details.assign(decoding="free")), "decoding")["estimated"] == "no: it is the same in every row"
    with pytest.raises(ValueError, match="details lack the columns coverage"):
        what_costs_what(details.drop(columns="coverage"))


def test_one_seed_has_no_interval_by_seed_and_decoding_is_compared_with_free():
    table = what_costs_what(study(np.random.default_rng(3), seeds=1, examples=200))
    assert table["low_seeds"].isna().all() and table["low"].notna().all()
    assert of(table, "decoding")["contrast"] == "stepwise, against free"
    assert (table["n"].iloc[0], table["tasks"].iloc[0], table["seeds"].iloc[0]) == (600, 200, 1)


def test_seeds_that_are_all_alike_give_no_interval_by_seed():
    one = study(np.random.default_rng(6), seeds=1, examples=64)
    table = what_costs_what(pd.concat([one.assign(seed=seed) for seed in range(5)], ignore_index=True))
    assert table["low_seeds"].isna().all() and table["p_seeds"].isna().all() and table["low"].notna().all()


@pytest.mark.filterwarnings("error")
def test_an_arm_that_is_always_like_another_has_no_interval():
    """Its variance is zero, and what rounding leaves of it may be negative."""
    for seed in range(20):
        details = study(np.random.default_rng(seed), examples=12, seeds=1, depth=-0.5)
        same = details[details["arm"] == "a"].assign(arm="b", decoding="constrained")
        rows = what_costs_what(
            pd.concat([details[details["arm"] == "a"], same, details[details["arm"] == "c"]]), factors=("depth", "decoding")
        )
        constrained = rows[rows["contrast"].str.startswith("constrained")].iloc[0]
        assert constrained.odds_ratio == pytest.approx(1, abs=1e-3) and np.isnan(constrained.low)


def test_an_interaction_is_a_ratio_of_odds_ratios():
    random = np.random.default_rng(4)
    details = study(random, shared=0, examples=2000)
    linear = 2 - 1.5 * (details["coverage"] == 0) * np.log2(details["depth"])
    details["exec_correct"] = (random.random(len(details)) < expit(linear)).astype(int)
    table = what_costs_what(details, interactions=[("depth", "coverage")])
    both = of(table, "depth x coverage")
    assert both["low"] < np.exp(-1.5) < both["high"]
    assert np.isnan(both["points"])
    assert of(table, "depth")["low"] < 1 < of(table, "depth")["high"]
    assert of(table, "depth")["points"] < -5  # its average over tasks that lack an opcode and tasks that don't


def test_known_odds_ratios_are_covered_and_a_factor_of_no_effect_is_rejected_as_often_as_promised():
    random = np.random.default_rng(5)
    truth = {"depth": -0.4, "coverage": -1.2, "template_shift": 0.0, "decoding": 0.5}
    tables = pd.concat([what_costs_what(study(random, **truth)) for _ in range(200)], ignore_index=True)
    assert (tables["estimated"] == "yes").all()
    for factor, log_odds in truth.items():
        rows, odds = tables[tables["factor"] == factor], np.exp(log_odds)
        assert 0.90 <= ((rows["low"] <= odds) & (rows["high"] >= odds)).mean() <= 0.985, factor
        assert 0.88 <= ((rows["low_seeds"] <= odds) & (rows["high_seeds"] >= odds)).mean() <= 0.99, factor
        assert np.log(rows["odds_ratio"]).mean() == pytest.approx(log_odds, abs=0.06), factor
    null = tables[tables["factor"] == "template_shift"]
    assert 0.01 <= (null["p"] < 0.05).mean() <= 0.09
    assert ((null["points_low"] > 0) | (null["points_high"] < 0)).mean() <= 0.09


def test_the_published_run_costs(published):
    details = rescore.rescored(rescore.read_published(published, "details.csv"), lenient=True)
    table = what_costs_what(details[details["length"] != ""])
    assert table["factor"].tolist() == ["depth", "coverage", "template_shift"]
    assert (table["estimated"] == "yes").all() and (table["n"] == 1440).all() and (table["tasks"] == 480).all()
    depth, covered = of(table, "depth"), of(table, "coverage")
    assert covered["points_high"] < -50 < -15 < depth["points_low"]  # coverage, not depth
