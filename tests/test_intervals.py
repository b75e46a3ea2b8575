"""Intervals: known values, clusters, coverage."""

import numpy as np
import pytest

from depthstress.intervals import design_effect, difference, paired_difference, rate


def test_wilson_for_one_cluster():
    shown = rate([11], [12])  # Wilson's interval for 11 of 12, by hand
    assert (shown.hits, shown.n) == (11, 12)
    assert (shown.low, shown.high) == (pytest.approx(0.6461, abs=1e-4), pytest.approx(0.9851, abs=1e-4))


@pytest.mark.parametrize("hits", [0, 12])
def test_all_right_or_all_wrong_still_has_a_width(hits):
    shown = rate([hits] * 5, [12] * 5)
    assert 0 <= shown.low < shown.high <= 1
    assert shown.high - shown.low > 0.05


def test_clusters_that_differ_widen_the_interval():
    same, apart = rate([6] * 5, [12] * 5), rate([12, 0, 12, 0, 6], [12] * 5)
    assert same.value == apart.value
    assert apart.high - apart.low > 1.5 * (same.high - same.low)
    assert design_effect([6] * 5, [12] * 5) == 1.0


def test_nothing_to_count_is_an_error():
    with pytest.raises(ValueError, match="at least one observation"):
        rate([], [])


def test_intervals_cover_the_truth_about_as_often_as_they_say():
    random = np.random.default_rng(7)
    for truth in (0.1, 0.5, 0.9):
        hits = random.binomial(12, truth, size=(2000, 5))
        covered = [(shown := rate(list(map(int, row)), [12] * 5)).low <= truth <= shown.high for row in hits]
        assert 0.93 <= np.mean(covered) <= 0.99


def test_a_difference_of_independent_rates():
    low, high = difference(rate([56], [70]), rate([48], [80]))  # Newcombe (1998, Stat. Med. 17, 873-890), Table II, (a), method 10
    assert (low, high) == (pytest.approx(0.0524, abs=5e-5), pytest.approx(0.3339, abs=5e-5))


@pytest.mark.parametrize(("only_first", "only_second", "n", "low", "high"), [
    (1, 7, 21, -0.517, -0.026),  # Fagerland, Lydersen & Laake (2014), airway hyper-responsiveness
    (6, 16, 161, -0.1240, -0.0054),  # the same (2017), complete response
])  # fmt: skip
def test_a_paired_difference(only_first, only_second, n, low, high):
    assert paired_difference(only_first, only_second, n) == (pytest.approx(low, abs=5e-4), pytest.approx(high, abs=5e-4))


def test_paired_differences_at_the_edge():
    low, high = paired_difference(0, 0, 10)
    assert (-low, high) == (pytest.approx(high), pytest.approx(1.959964**2 / (10 + 1.959964**2), abs=1e-5))
    assert paired_difference(10, 0, 10)[1] == 1 and paired_difference(0, 10, 10)[0] == -1
    assert paired_difference(10, 0, 10)[0] == pytest.approx(-paired_difference(0, 10, 10)[1]) and paired_difference(10, 0, 10)[0] > 0.4
    with pytest.raises(ValueError, match="at least one pair"):
        paired_difference(0, 0, 0)
