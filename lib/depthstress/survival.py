"""Survival by step: how likely step i of a program is right, given that all before it were.

A step is right where the instruction equals the gold one, operands included: a detour that comes to the same
value counts as wrong. Pure.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pandas as pd
from statsmodels.stats.proportion import proportion_confint

from .intervals import LEVEL, rate
from .statistics import cells, need


def survival(details: pd.DataFrame, by: Sequence[str] = (), operations_only: bool = False) -> pd.DataFrame:
    """The product-limit estimate over steps (Kaplan & Meier, 1958, JASA 53), one row a cell of `by` and step.

    Uses first_divergence and gold_instructions. A program that stops early fails at the step where the next
    instruction was due; one that is right to the end is censored after its last gold instruction, however it goes on. So
    the risk set of late steps holds the deep tasks alone: cells of one depth (`by`) keep that apart.
    operations_only: count operations, not the loads before them; a divergence in the loads is step 0 (needs depth).

    Columns: the cell, step, at_risk, failed, finished (right through their last step, this one), overrun (of
    those, how many wrote on), hazard and survival, each with its interval (_low, _high). The hazard's is
    `intervals.rate`; the survival's is Wilson's on the effective sample size (Rothman, 1978, J. Chronic Dis. 31), S(1 - S)
    over the variance of S: Greenwood's, or the one between seeds where that is larger (Williams, 1995, Biometrics
    51). Without a failure, or a survivor, the effective size is the risk set of the step. Generations of
    arms that write no program are left out. Raises ValueError where a column or a value of it is missing.
    """
    needed = [*by, "seed", "gold_instructions", "length", *(["depth"] if operations_only else [])]
    need(details, needed, may_be_empty=["first_divergence"])
    programs = details[details["length"] != ""]
    loads = programs["gold_instructions"] - programs["depth"] if operations_only else 0
    last = programs["gold_instructions"] - loads
    diverged = programs["first_divergence"].astype(float)
    past = diverged > programs["gold_instructions"]
    end = (diverged - loads).clip(lower=0 if operations_only else 1).where(diverged.notna() & ~past, last).astype(int)
    steps = programs[list(by)].assign(seed=programs["seed"], end=end, failed=diverged.notna() & ~past, overrun=past)
    tables = [_table(part, 0 if operations_only else 1).assign(**cell) for cell, part in cells(steps, by)]
    columns = ["step", "at_risk", "failed", "finished", "overrun", *(f"{what}{side}" for what in ("hazard", "survival") for side in SIDES)]
    return pd.concat(tables, ignore_index=True)[[*by, *columns]] if tables else pd.DataFrame(columns=[*by, *columns])


SIDES = ("", "_low", "_high")


def _table(steps: pd.DataFrame, first: int) -> pd.DataFrame:
    """One cell: its steps from `first` on. steps: a row a program with seed, end (its last step), failed, overrun."""
    index = pd.MultiIndex.from_product([steps["seed"].unique(), range(first, steps["end"].max() + 1)], names=["seed", "step"])
    counts = (
        steps.assign(n=1)
        .groupby(["seed", "end"])[["n", "failed", "overrun"]]
        .sum()
        .rename_axis(["seed", "step"])
        .reindex(index, fill_value=0)
    )
    ended, failed = (counts[what].unstack("step").to_numpy() for what in ("n", "failed"))  # seeds x steps
    at_risk = ended[:, ::-1].cumsum(axis=1)[:, ::-1]
    risk, failures = at_risk.sum(axis=0), failed.sum(axis=0)
    hazards = [rate(list(map(int, hits)), list(map(int, sizes))) for hits, sizes in zip(failed.T, at_risk.T)]
    hazard = failures / risk
    alive = np.cumprod(1 - hazard)
    low, high = proportion_confint(alive * (size := _effective_size(at_risk, failed, hazard, alive)), size, 1 - LEVEL, "wilson")
    return pd.DataFrame({
        "step": range(first, first + len(risk)), "at_risk": risk, "failed": failures, "finished": ended.sum(axis=0) - failures,
        "overrun": counts["overrun"].groupby(level="step").sum().to_numpy(),
        "hazard": hazard, "hazard_low": [h.low for h in hazards], "hazard_high": [h.high for h in hazards],
        "survival": alive, "survival_low": np.clip(low, 0, 1), "survival_high": np.clip(high, 0, 1),
    })  # fmt: skip


def _effective_size(at_risk: np.ndarray, failed: np.ndarray, hazard: np.ndarray, alive: np.ndarray) -> np.ndarray:
    """How many independent programs the survival at each step is worth. at_risk, failed: seeds x steps."""
    risk, seeds = at_risk.sum(axis=0), len(at_risk)
    certain = (alive == 1) | (alive == 0)
    still = np.where(hazard < 1, 1 - hazard, 1)
    greenwood = np.cumsum(hazard / (risk * still))
    between = ((failed - hazard * at_risk) / (risk * still)).cumsum(axis=1)
    clustered = (between**2).sum(axis=0) * seeds / (seeds - 1) if seeds > 1 else 0
    relative = np.maximum(greenwood, clustered)  # the variance of S over S squared
    with np.errstate(divide="ignore", invalid="ignore"):
        return np.where(certain, risk, (1 - alive) / (alive * relative))
