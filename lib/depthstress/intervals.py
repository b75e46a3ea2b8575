"""Rates with 95% intervals: Wilson's, widened where seeds differ more than chance; and differences of two rates."""

from __future__ import annotations

from dataclasses import dataclass
from math import hypot, sqrt

from scipy.optimize import brentq
from scipy.stats import norm
from statsmodels.stats.proportion import proportion_confint

LEVEL = 0.95


@dataclass(frozen=True)
class Rate:
    """A proportion: `hits` of `n`, and its interval."""

    hits: int
    n: int
    low: float
    high: float

    @property
    def value(self) -> float:
        return self.hits / self.n

    def __str__(self) -> str:
        return f"{self.hits} of {self.n} ({self.value:.0%}, 95% interval {self.low:.0%} to {self.high:.0%})"


def rate(hits: list[int], sizes: list[int]) -> Rate:
    """The pooled rate over clusters (seeds), each with `hits[i]` of `sizes[i]`.

    Wilson's score interval (Wilson, 1927, JASA 22) on the effective sample size n / deff, where the design
    effect deff is the variance of the rate between clusters over its binomial variance, at least 1 (Kish,
    1965; with Wilson's interval: Dean & Pagano, 2015, J. Survey Stat. Methodol. 3). With one cluster, plain
    Wilson. Raises ValueError where there is nothing to count.
    """
    n = sum(sizes)
    if not n:
        raise ValueError("a rate needs at least one observation")
    effective = n / design_effect(hits, sizes)
    low, high = proportion_confint(sum(hits) / n * effective, effective, alpha=1 - LEVEL, method="wilson")
    return Rate(sum(hits), n, max(0.0, round(float(low), 12)), min(1.0, round(float(high), 12)))


def design_effect(hits: list[int], sizes: list[int]) -> float:
    """How much the clusters inflate the variance of the pooled rate; at least 1."""
    clusters, n = len(sizes), sum(sizes)
    mean = sum(hits) / n
    binomial = mean * (1 - mean) / n
    if clusters < 2 or binomial == 0:
        return 1.0
    residuals = sum((h - mean * size) ** 2 for h, size in zip(hits, sizes))
    between = residuals * clusters / (clusters - 1) / n**2
    return max(1.0, between / binomial)


def difference(first: Rate, second: Rate) -> tuple[float, float]:
    """The interval of first - second, two rates over different tasks, from their own intervals.

    Newcombe's hybrid score interval (1998, Statistics in Medicine 17, 873-890, method 10), which takes any
    good interval of the two rates (Zou & Donner, 2008, Statistics in Medicine 27, section 2), so that the
    design effect counts here as well.
    """
    estimate = first.value - second.value
    low = estimate - hypot(first.value - first.low, second.high - second.value)
    high = estimate + hypot(first.high - first.value, second.value - second.low)
    return max(-1.0, low), min(1.0, high)


def paired_difference(only_first: int, only_second: int, n: int) -> tuple[float, float]:
    """The interval of the difference of two rates over the same n tasks, from the discordant pairs.

    Tango's score interval (1998, Statistics in Medicine 17, section 3), which keeps its coverage in small
    samples and has a width without any discordant pair (recommended by Fagerland, Lydersen & Laake, 2014,
    Statistics in Medicine 33, section 7). Raises ValueError where there is nothing to count.
    """
    if not n:
        raise ValueError("a paired difference needs at least one pair")
    estimate, z = (only_first - only_second) / n, norm.ppf(0.5 + LEVEL / 2)

    def score(delta: float) -> float:
        # the nuisance rate (second only), at its maximum likelihood given delta
        linear = (2 * n - only_first + only_second) * delta - only_first - only_second
        nuisance = (sqrt(max(linear**2 + 8 * n * only_second * delta * (1 - delta), 0)) - linear) / (4 * n)
        variance = n * (2 * nuisance + delta * (1 - delta))
        return (only_first - only_second - n * delta) / sqrt(variance)

    edge = 1 - 1e-9
    low = -1.0 if only_second == n else brentq(lambda delta: score(delta) - z, -edge, estimate - 1e-12)
    high = 1.0 if only_first == n else brentq(lambda delta: score(delta) + z, estimate + 1e-12, edge)
    return low, high
