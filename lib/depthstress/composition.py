"""Never taught, or not composed? The controlled experiment's tables: which arms are compared, and what it costs them.

Arms differ in factors (format, training, decoding, see `arms`), and every comparison changes one of them. Pure:
details (`tables.detail`) in, data frames out.
"""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
import pandas as pd

from .arms import DEFAULT
from .effects import what_costs_what
from .statistics import TASK, bootstrap_difference, paired
from .survival import survival

FACTORS = ["arm", "title", "format", "writer", "training", "decoding"]
FREE = "free"
CELL = ["template_shift", "depth", "split"]
MEASURES = {"right": "primary_correct", "stops early": "stops_early"}
COMPARED = ["factor", "measure", *CELL, "first", "second", "n", "rate_first", "rate_second", "b", "c", "difference", "low", "high",
            "low_seeds", "high_seeds", "p", "p_holm"]  # fmt: skip


def arms_of(details: pd.DataFrame) -> pd.DataFrame:
    """A row an arm: its factors."""
    return details.drop_duplicates("arm")[FACTORS].reset_index(drop=True)


def comparisons(details: pd.DataFrame, builds_on: Mapping[str, str]) -> list[tuple[str, str, str]]:
    """(what differs, one arm, the arm that it is compared with): the decoding on one adapter, or the training with
    one format, decoded freely, against the training that it builds on (`suites.Suite.builds_on`)."""
    arms = arms_of(details)
    trained = arms[arms["writer"] == "adapter"]
    pairs = []
    for (form, training), group in trained.groupby(["format", "training"], sort=False):
        free = group[group["decoding"] == FREE]
        pairs += [("decoding", row.arm, free.iloc[0].arm) for row in group.itertuples() if len(free) and row.decoding != FREE]
        before = trained[(trained["format"] == form) & (trained["training"] == builds_on.get(training)) & (trained["decoding"] == FREE)]
        if len(free) and len(before):
            pairs.append(("training", free.iloc[0].arm, before.iloc[0].arm))
    return pairs


def paired_table(details: pd.DataFrame, builds_on: Mapping[str, str]) -> pd.DataFrame:
    """Every comparison on the same tasks, by split, of each of the `MEASURES`; Holm's correction over all rows of a measure
    (`statistics.paired`). low_seeds and high_seeds: the cluster bootstrap over seeds (`statistics.bootstrap_difference`),
    missing with fewer than two of them."""
    what = {(one, other): factor for factor, one, other in comparisons(details, builds_on)}
    tasks = details[[*CELL, "arm", *TASK, "primary_correct"]].assign(stops_early=(details["length"] == "under").astype(int))
    tables = [_compared(tasks, list(what), column).assign(measure=measure) for measure, column in MEASURES.items() if what]
    if not tables:
        return pd.DataFrame(columns=COMPARED)
    table = pd.concat(tables, ignore_index=True)
    return table.assign(factor=[what[pair] for pair in zip(table["first"], table["second"])])[COMPARED]


def _compared(details: pd.DataFrame, pairs: list[tuple[str, str]], column: str) -> pd.DataFrame:
    table = paired(details, pairs, by=CELL, column=column).assign(low_seeds=np.nan, high_seeds=np.nan)
    if details["seed"].nunique() < 2:
        return table
    key = [*CELL, "first", "second"]
    drawn = pd.concat([bootstrap_difference(details, *pair, by=CELL, column=column) for pair in pairs], ignore_index=True)
    drawn = drawn.set_index(key).reindex(table.set_index(key).index)
    return table.assign(low_seeds=drawn["low"].to_numpy(), high_seeds=drawn["high"].to_numpy())


def costs_table(details: pd.DataFrame) -> pd.DataFrame:
    """What costs what, over the arms that write a program with an adapter that was taught true targets
    (`effects.what_costs_what`): depth, coverage, wording, decoding, and whether many wordings were taught."""
    programs = details[(details["format"] == "program_stack") & (details["writer"] == "adapter") & (details["training"] != "shuffled")]
    factors = [f for f in ("depth", "coverage", "template_shift", "decoding", "training") if programs[f].nunique() > 1]
    return what_costs_what(programs, factors=factors) if len(programs) and factors else pd.DataFrame(columns=["factor", "contrast"])


def survival_table(details: pd.DataFrame) -> pd.DataFrame:
    """Survival by step in the standard wording (`survival.survival`): a cell an arm and depth."""
    standard = details[(details["template_shift"] == 0) & details["writer"].isin(["adapter", "base"])]
    return survival(standard, ["arm", "title", "format", "decoding", "depth"])


def taught_table(details: pd.DataFrame, builds_on: Mapping[str, str]) -> pd.DataFrame:
    """What teaching more than the suite's own training gains on the same tasks: executed accuracy of the programs, by
    `covered` (`with_coverage`), split, depth and wording (`statistics.paired`). Each wording with and without coverage is a
    question of its own: Holm's correction is over its depths (and trainings)."""
    arms = arms_of(details).set_index("arm")
    pairs = [
        (first, second)
        for factor, first, second in comparisons(details, builds_on)
        if factor == "training" and arms.loc[second, "training"] == DEFAULT and arms.loc[second, "format"] == "program_stack"
    ]
    if not pairs:
        return pd.DataFrame(columns=["covered", *CELL, "first", "second", "n", "difference"])
    questions = with_coverage(details, pairs[0][1]).groupby(["covered", "template_shift"])
    tables = [paired(tasks, pairs, by=["covered", *CELL], column="exec_correct") for _, tasks in questions]
    return pd.concat(tables, ignore_index=True)


def with_coverage(details: pd.DataFrame, arm: str) -> pd.DataFrame:
    """The tasks that an arm did, in every arm, with `covered`: whether that arm's training had every opcode of the gold program."""
    own = details[details["arm"] == arm]
    return details.merge(own[TASK].assign(covered=own["coverage"]), on=TASK)
