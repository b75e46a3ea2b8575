"""Intervals: known values, clusters, coverage."""

import numpy as np
import pytest

from depthstress.intervals import design_effect, rate


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
