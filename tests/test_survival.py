"""Survival by step: by hand, against the textbook variance, and in simulation."""

import numpy as np
import pandas as pd
import pytest

from depthstress import rescore
from depthstress.intervals import rate
from depthstress.survival import survival


def programs(*lines, **columns) -> pd.DataFrame:
    """A program for every (gold instructions, first divergence or None)."""
    gold, diverged = zip(*lines)
    return pd.DataFrame({"arm": "a", "seed": 101, "gold_instructions": gold, "first_divergence": pd.Series(diverged, dtype=float),
                         "length": "exact", **columns})  # fmt: skip


def test_a_table_by_hand():
    # right to the end of 2 and of 3; wrong at 1; wrong at (or stopped before) 2; right to the end of 2, then wrote on
    table = survival(programs((2, None), (3, None), (3, 1), (3, 2), (2, 3)))
    assert table["step"].tolist() == [1, 2, 3]
    assert table["at_risk"].tolist() == [5, 4, 1]
    assert table["failed"].tolist() == [1, 1, 0]
    assert table["finished"].tolist() == [0, 2, 1]
    assert table["overrun"].tolist() == [0, 1, 0]
    assert table["hazard"].tolist() == pytest.approx([1 / 5, 1 / 4, 0])
    assert table["survival"].tolist() == pytest.approx([4 / 5, 3 / 5, 3 / 5])
    first = rate([1], [5])
    assert (table.loc[0, "hazard_low"], table.loc[0, "hazard_high"]) == (first.low, first.high)
    # without censoring Greenwood's variance is the binomial one, and so the interval is Wilson's
    assert (table.loc[0, "survival_low"], table.loc[0, "survival_high"]) == (pytest.approx(1 - first.high), pytest.approx(1 - first.low))
    second = rate([3], [5])
    assert (table.loc[1, "survival_low"], table.loc[1, "survival_high"]) == (pytest.approx(second.low), pytest.approx(second.high))


def test_greenwood_with_censoring():
    """S = 0.9 x 0.75, variance S^2 (1/(10 x 9) + 2/(8 x 6)): an effective size of S(1 - S) / variance in Wilson's interval."""
    table = survival(programs((1, None), (3, 1), *[(3, 2)] * 2, *[(3, None)] * 6))
    alive = 0.9 * 0.75
    size = (1 - alive) / alive / (1 / 90 + 2 / 48)
    z = 1.959963984540054
    centre, reach = (
        (alive + z * z / 2 / size) / (1 + z * z / size),
        z * np.sqrt(alive * (1 - alive) / size + (z / 2 / size) ** 2) / (1 + z * z / size),
    )
    assert table.loc[1, "survival"] == pytest.approx(alive)
    assert (table.loc[1, "survival_low"], table.loc[1, "survival_high"]) == (pytest.approx(centre - reach), pytest.approx(centre + reach))


def test_all_right_and_all_wrong_keep_a_width():
    right, wrong = survival(programs(*[(2, None)] * 10)), survival(programs(*[(2, 1)] * 10))
    assert right["survival"].tolist() == [1, 1] and right["survival_low"].between(0.6, 0.8).all()
    assert wrong["step"].tolist() == [1]  # nobody is left to look at
    assert wrong["survival"].tolist() == [0] and wrong["survival_high"].between(0.2, 0.4).all()


def test_seeds_that_differ_widen_the_interval():
    mixed = programs(*[(2, 1)] * 30, *[(2, None)] * 30)
    same, apart = (survival(mixed.assign(seed=seed)) for seed in (np.arange(60) % 5, np.arange(60) // 12))
    assert same["survival"].tolist() == apart["survival"].tolist()
    width = [t["survival_high"].iloc[-1] - t["survival_low"].iloc[-1] for t in (same, apart)]
    assert width[1] > 1.5 * width[0]


def test_operations_only_counts_the_loads_as_step_0():
    lines = (3, 1), (3, 2), (3, 3), (3, None), (3, 4)
    table = survival(programs(*lines, depth=2), operations_only=True)
    assert table["step"].tolist() == [0, 1, 2]
    assert table["failed"].tolist() == [1, 1, 1]
    assert table["at_risk"].tolist() == [5, 4, 3]
    assert table["overrun"].tolist() == [0, 0, 1]


def test_arms_without_programs_are_left_out_and_cells_are_apart():
    details = pd.concat([programs((2, 1), depth=1), programs((2, None), depth=2), programs((2, None), depth=1).assign(length="")])
    table = survival(details, ["depth"])
    assert table[["depth", "step", "at_risk", "survival"]].values.tolist() == [[1, 1, 1, 0], [2, 1, 1, 1], [2, 2, 1, 1]]
    assert survival(details[details["length"] == ""]).empty
    with pytest.raises(ValueError, match="first_divergence"):
        survival(details.drop(columns="first_divergence"))


def test_every_published_program_is_at_risk_at_its_first_step(published):
    details = rescore.rescored(rescore.read_published(published, "details.csv"), lenient=True)
    written = details[details["length"] != ""]
    table = survival(details)
    assert table["at_risk"].iloc[0] == len(written) == 1440
    assert table["failed"].sum() + table["finished"].sum() == 1440


def test_intervals_cover_a_known_survival_about_as_often_as_they_say():
    random = np.random.default_rng(6)
    hazard, steps, trials, n = 0.15, 4, 300, 60
    fails = random.geometric(hazard, trials * n).astype(float)
    gold = random.integers(2, steps + 1, trials * n)  # censored at different steps
    diverged = np.where(fails <= gold, fails, np.nan)
    details = pd.DataFrame({"trial": np.repeat(np.arange(trials), n), "seed": np.arange(trials * n) % 5, "gold_instructions": gold,
                            "first_divergence": diverged, "length": "exact"})  # fmt: skip
    table = survival(details, ["trial"])
    for step, part in table.groupby("step"):
        truth = (1 - hazard) ** step
        assert 0.92 <= ((part["survival_low"] <= truth) & (part["survival_high"] >= truth)).mean() <= 0.995
        assert 0.92 <= ((part["hazard_low"] <= hazard) & (part["hazard_high"] >= hazard)).mean() <= 0.995
