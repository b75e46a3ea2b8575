"""What costs what: a logistic model of success on depth, coverage, wording and decoding. Pure.

The estimator is Firth's penalised likelihood (1993, Biometrika 80, section 3), which removes the first-order bias and
stays finite where a factor separates right from wrong (Heinze & Schemper, 2002, Statistics in Medicine 21; Kosmidis &
Firth, 2021, Biometrika 108, prove it); with much data it is maximum likelihood.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import pandas as pd
from scipy import stats
from scipy.optimize import brentq, linprog
from scipy.special import expit, log_expit

from .intervals import LEVEL
from .statistics import TASK, need

FACTORS = ("depth", "coverage", "template_shift", "decoding")
NAMED = {
    "depth": "per doubling",
    "coverage": "an opcode never trained, against all trained",
    "template_shift": "held-out wording, against the standard one",
}
REFERENCE = {"decoding": "free"}
COLUMNS = ["factor", "contrast", "odds_ratio", "low", "high", "p", "low_seeds", "high_seeds", "p_seeds", "points", "points_low",
           "points_high", "n", "tasks", "seeds", "estimated"]  # fmt: skip


def what_costs_what(
    details: pd.DataFrame,
    column: str = "exec_correct",
    factors: Sequence[str] = FACTORS,
    interactions: Sequence[tuple[str, str]] = (),
) -> pd.DataFrame:
    """One row a contrast of a factor: its odds ratio, and what it makes in percentage points.

    factors: columns. depth enters as log2; coverage and template_shift as in `NAMED`; any other (decoding, arm, family)
    has a contrast for each value against its first in order (decoding: against "free"). decoding may be missing.
    interactions: pairs of factors; their odds ratio is a ratio of odds ratios, and they have no points of their own. The
    odds ratio of a factor in an interaction is the one at the other's reference (of depth: depth 1).

    Columns: factor, contrast, odds_ratio; low, high and p clustered by task; low_seeds, high_seeds and p_seeds clustered by
    seed; points (percentage points), points_low, points_high (by task); n, tasks, seeds; estimated.

    Arms answer the same tasks, so that rows of a task (seed and example id) depend on each other: the covariance is the
    cluster-robust sandwich with the CR1 correction and t with clusters - 1 degrees of freedom (Liang & Zeger, 1986,
    Biometrika 73, with independence as working correlation; Cameron & Miller, 2015, J. Human Resources 50, sections II
    and VI.A). Rows of a seed share adapters as well, but five seeds are too few for that sandwich (section VI: it rejects
    too often), though t helps where all seeds have the same tasks (Ibragimov & Muller, 2010, J. Bus. Econ. Stat. 28). So
    both are shown; where they disagree, trust the wider. With one seed, or seeds that are all alike, the latter is missing.

    points: the mean predicted probability with every row at the contrast, less that with every row at its reference
    (marginal standardisation with the delta method: Muller & MacLehose, 2014, Int. J. Epidemiol. 43); for depth, a
    doubling centred on each row's own depth.

    estimated: "yes"; "penalised: ..." where the contrast separates right from wrong (found as by Konis, 2007, by a linear
    programme): maximum likelihood is infinite, the estimate rests on the penalty, and low, high and p are of the
    profile penalised likelihood, which knows no clusters; or "no: ..." with the reason, all figures missing.
    Raises ValueError where a column or a value of it is missing.
    """
    factors = [factor for factor in factors if factor != "decoding" or factor in details]
    need(details, [*factors, *TASK, column])
    terms = _terms(details, factors)
    terms += [_Term(f"{a.factor} x {b.factor}", f"{a.contrast} x {b.contrast}", (*a.parts, *b.parts))
              for one, other in interactions for a in terms for b in terms if (a.factor, b.factor) == (one, other)]  # fmt: skip
    y = details[column].to_numpy(float)
    reasons = _unestimable(details, terms, y)
    kept = [term for term in terms if term not in reasons]
    counts = {"n": len(details), "tasks": details.groupby(TASK).ngroups, "seeds": details["seed"].nunique()}
    try:
        rows = dict(zip(kept, _rows(details, kept, y))) if kept else {}
    except DoesNotSettle:
        rows, reasons = {}, dict.fromkeys(terms, "no: the model does not settle on these rows")
    table = [{"factor": t.factor, "contrast": t.contrast, **rows.get(t, {"estimated": reasons.get(t)}), **counts} for t in terms]
    return pd.DataFrame(table, columns=COLUMNS)


class DoesNotSettle(ValueError):
    """Newton's method finds no maximum of the penalised likelihood."""


@dataclass(frozen=True)
class _Term:
    """A column of the design: the product of its parts, each a column of the details and the value it is 1 for (None: log2)."""

    factor: str
    contrast: str
    parts: tuple[tuple[str, object], ...]

    def column(self, details: pd.DataFrame, at: dict[str, object] | None = None) -> np.ndarray:
        """at: values to put in place of the details' columns."""
        return np.prod([_coded(details[name] if at is None or name not in at else at[name], value, len(details))
                        for name, value in self.parts], axis=0)  # fmt: skip


def _coded(values: object, is_one: object, size: int) -> np.ndarray:
    coded = np.log2(np.asarray(values, float)) if is_one is None else np.asarray(values == is_one, float)
    return np.broadcast_to(coded, size)


def _terms(details: pd.DataFrame, factors: Sequence[str]) -> list[_Term]:
    ones = {"depth": None, "coverage": 0, "template_shift": 1}
    terms = []
    for factor in factors:
        if factor in ones:
            terms.append(_Term(factor, NAMED[factor], ((factor, ones[factor]),)))
            continue
        values = sorted(details[factor].unique())
        reference = _reference(details, factor)
        terms += [_Term(factor, f"{value}, against {reference}", ((factor, value),)) for value in values if value != reference]
        if len(values) == 1:
            terms.append(_Term(factor, f"{reference} alone", ((factor, reference),)))
    return terms


def _reference(details: pd.DataFrame, factor: str) -> object:
    if factor in ("coverage", "template_shift"):
        return 1 if factor == "coverage" else 0
    values = sorted(details[factor].unique())
    return REFERENCE[factor] if REFERENCE.get(factor) in values else values[0]


def _unestimable(details: pd.DataFrame, terms: list[_Term], y: np.ndarray) -> dict[_Term, str]:
    """The terms that the rows say nothing about, with the reason."""
    if len(set(y)) < 2:
        return dict.fromkeys(terms, f"no: every row is {'right' if y.all() else 'wrong'}" if len(y) else "no: there are no rows")
    reasons, kept = {}, [np.ones(len(y))]
    for term in terms:
        column = term.column(details)
        if np.ptp(column) == 0:
            reasons[term] = "no: it is the same in every row"
        elif np.linalg.matrix_rank(_patterns(np.column_stack([*kept, column]))[0]) <= len(kept):
            reasons[term] = "no: the factors before it determine it"
        else:
            kept.append(column)
    return reasons


def _rows(details: pd.DataFrame, terms: list[_Term], y: np.ndarray) -> list[dict]:
    """Estimates of the terms, in order."""
    x = np.column_stack([np.ones(len(y)), *(term.column(details) for term in terms)])
    patterns, index = _patterns(x)
    hits, sizes = np.bincount(index, y), np.bincount(index)
    beta, information = firth(patterns, hits, sizes)
    scores = x * (y - expit(patterns @ beta)[index])[:, None]
    tasks, seeds = (details.groupby(key).ngroup().to_numpy() for key in (TASK, "seed"))
    by_task, by_seed = (_sandwich(np.linalg.inv(information), scores, clusters) for clusters in (tasks, seeds))
    separated = separating(patterns, hits, sizes)
    rows = []
    for k, term in enumerate(terms, 1):
        row = {"odds_ratio": np.exp(beta[k])}
        if separated[k]:
            low, high, p = _profile(patterns, hits, sizes, k, beta)
            row |= {"low": np.exp(low), "high": np.exp(high), "p": p, **_points(details, terms, term, beta, None),
                    "estimated": "penalised: all right or all wrong on one side"}  # fmt: skip
        else:
            row |= {**_wald(beta[k], by_task, k, ""), **_wald(beta[k], by_seed, k, "_seeds"), **_points(details, terms, term, beta, by_task),
                    "estimated": "yes"}  # fmt: skip
        rows.append(row)
    return rows


def _patterns(x: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """The distinct rows of a design, and which one each row is."""
    codes = np.zeros(len(x), int)
    for column in x.T:  # np.unique over rows, or over a column, sorts all of it, which is slow
        code, values = pd.factorize(column, sort=True)
        codes = pd.factorize(codes * len(values) + code, sort=True)[0]
    first = np.empty(codes.max(initial=-1) + 1, int)
    first[codes[::-1]] = np.arange(len(codes))[::-1]
    return x[first], codes


def firth(
    x: np.ndarray, hits: np.ndarray, sizes: np.ndarray, fixed: tuple[int, float] | None = None, start: np.ndarray | None = None
) -> tuple[np.ndarray, np.ndarray]:
    """Coefficients and Fisher information of the penalised logistic likelihood, `penalised_likelihood`.

    x: patterns x coefficients; hits of sizes rows were right at each pattern. fixed: a coefficient held at a value, for
    a profile. Newton's method on the modified score, with halved steps. Raises DoesNotSettle.
    """
    beta = np.zeros(x.shape[1]) if start is None else start.copy()
    free = np.arange(x.shape[1])
    if fixed:
        beta[fixed[0]] = fixed[1]
        free = np.delete(free, fixed[0])
    value, information = penalised_likelihood(x, hits, sizes, beta)
    for _ in range(200):
        p = expit(x @ beta)
        leverage = sizes * p * (1 - p) * np.einsum("ij,ij->i", x @ np.linalg.inv(information), x)
        score = x.T @ (hits - sizes * p + leverage * (0.5 - p))
        step = np.zeros(len(beta))
        step[free] = np.linalg.solve(information[np.ix_(free, free)], score[free])
        step *= min(1, 5 / max(np.abs(step).max(), 1e-300))
        while np.abs(step).max() > 1e-10:
            if (new := penalised_likelihood(x, hits, sizes, beta + step))[0] >= value - 1e-10:
                break
            step /= 2
        else:
            return beta, information
        beta, (value, information) = beta + step, new
    raise DoesNotSettle("the logistic model does not settle; give it fewer factors")


def penalised_likelihood(x: np.ndarray, hits: np.ndarray, sizes: np.ndarray, beta: np.ndarray) -> tuple[float, np.ndarray]:
    """The log likelihood plus half the log determinant of the Fisher information (Jeffreys' prior); and the information."""
    linear = x @ beta
    p = expit(linear)
    information = (x * (sizes * p * (1 - p))[:, None]).T @ x
    sign, determinant = np.linalg.slogdet(information)
    likelihood = hits @ log_expit(linear) + (sizes - hits) @ log_expit(-linear)
    return (likelihood + determinant / 2 if sign > 0 else -np.inf), information


def _profile(x: np.ndarray, hits: np.ndarray, sizes: np.ndarray, k: int, beta: np.ndarray) -> tuple[float, float, float]:
    """The interval and p of a coefficient by the profile penalised likelihood ratio (Heinze & Schemper, section 2.3)."""
    best = penalised_likelihood(x, hits, sizes, beta)[0]

    def drop(value: float) -> float:
        there = firth(x, hits, sizes, (k, value), beta)[0]
        return 2 * (best - penalised_likelihood(x, hits, sizes, there)[0])

    threshold, limits = stats.chi2.ppf(LEVEL, 1), []
    for sign in (-1, 1):
        reach = 1.0
        while drop(beta[k] + sign * reach) < threshold:
            reach *= 2
        limits.append(beta[k] + sign * brentq(lambda r: drop(beta[k] + sign * r) - threshold, 0, reach, xtol=1e-6))  # noqa: B023
    return limits[0], limits[1], float(stats.chi2.sf(max(drop(0.0), 0), 1))


def separating(x: np.ndarray, hits: np.ndarray, sizes: np.ndarray) -> np.ndarray:
    """Which coefficients have no finite maximum likelihood estimate (Konis, 2007, thesis, Oxford, chapter 4).

    A direction that never lowers the linear predictor of a row that is right, nor raises one that is wrong, and moves
    some; the linear programme finds the one that moves most within a box.
    """
    signed = np.vstack([x[hits > 0], -x[hits < sizes]])
    found = linprog(-signed.sum(axis=0), A_ub=-signed, b_ub=np.zeros(len(signed)), bounds=(-1, 1), method="highs")
    return np.abs(found.x) > 1e-7


def _sandwich(bread: np.ndarray, scores: np.ndarray, clusters: np.ndarray) -> tuple[np.ndarray, int] | None:
    """The cluster-robust covariance and the number of clusters; None for a single one."""
    number, (n, k) = clusters.max() + 1, scores.shape
    if number < 2:
        return None
    sums = np.column_stack([np.bincount(clusters, column, number) for column in scores.T])
    sums -= sums.mean(axis=0)  # zero but for the penalty's share of the score
    return bread @ sums.T @ sums @ bread * number / (number - 1) * (n - 1) / (n - k), number


def _wald(estimate: float, covariance: tuple[np.ndarray, int] | None, k: int, suffix: str) -> dict:
    error, freedom = (_root(covariance[0][k, k]), covariance[1] - 1) if covariance else (0, 0)
    if error < 1e-9:  # one cluster, or all alike: nothing to tell the variance from
        return {}
    reach = stats.t.ppf(0.5 + LEVEL / 2, freedom) * error
    p = 2 * stats.t.sf(abs(estimate) / error, freedom)
    return {f"low{suffix}": np.exp(estimate - reach), f"high{suffix}": np.exp(estimate + reach), f"p{suffix}": p}


def _root(variance: float) -> float:
    """A standard error; a variance of zero can come out as a little less."""
    return float(np.sqrt(max(variance, 0.0)))


def _points(details: pd.DataFrame, terms: list[_Term], term: _Term, beta: np.ndarray, covariance: tuple[np.ndarray, int] | None) -> dict:
    """The difference that a main effect makes in percentage points; its interval where there is a covariance."""
    if len(term.parts) > 1:
        return {}
    (name, value), means, gradients = term.parts[0], [], []
    levels = (value, _reference(details, name)) if value is not None else (details[name] * 2**0.5, details[name] / 2**0.5)
    for level in levels:
        columns = (other.column(details, {name: level}) for other in terms)
        x, index = _patterns(np.column_stack([np.ones(len(details)), *columns]))
        p, share = expit(x @ beta), np.bincount(index) / len(details)
        means.append(share @ p)
        gradients.append((share * p * (1 - p)) @ x)
    points = 100 * (means[0] - means[1])
    if covariance is None:
        return {"points": points}
    gradient = gradients[0] - gradients[1]
    reach = 100 * stats.t.ppf(0.5 + LEVEL / 2, covariance[1] - 1) * _root(gradient @ covariance[0] @ gradient)
    return {"points": points, "points_low": max(points - reach, -100), "points_high": min(points + reach, 100)}
