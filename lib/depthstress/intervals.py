"""Rates with 95% intervals: Wilson's, widened where seeds differ more than chance."""

from __future__ import annotations

from dataclasses import dataclass

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
