"""Never taught, or not composed? The controlled experiment's tables: which arms are compared, and what it costs them.

Arms differ in factors (format, training, decoding, see `arms`), and every comparison changes one of them. Pure:
details (`tables.detail`) in, data frames out.
"""

from __future__ import annotations

import pandas as pd

from .arms import DEFAULT
from .effects import what_costs_what
from .statistics import coverage_split, paired
from .survival import survival

FACTORS = ["arm", "title", "format", "writer", "training", "decoding"]
FREE = "free"


def arms_of(details: pd.DataFrame) -> pd.DataFrame:
    """A row an arm: its factors."""
    return details.drop_duplicates("arm")[FACTORS].reset_index(drop=True)


def comparisons(details: pd.DataFrame) -> list[tuple[str, str, str]]:
    """(what differs, one arm, the arm that it is compared with): the decoding on one adapter, or the training with
    one format, decoded freely."""
    arms = arms_of(details)
    trained = arms[arms["writer"] == "adapter"]
    pairs = []
    for (form, training), group in trained.groupby(["format", "training"], sort=False):
        free = group[group["decoding"] == FREE]
        pairs += [("decoding", row.arm, free.iloc[0].arm) for row in group.itertuples() if len(free) and row.decoding != FREE]
        plain = trained[(trained["format"] == form) & (trained["training"] == DEFAULT) & (trained["decoding"] == FREE)]
        if training != DEFAULT and len(free) and len(plain):
            pairs.append(("training", free.iloc[0].arm, plain.iloc[0].arm))
    return pairs


def paired_table(details: pd.DataFrame) -> pd.DataFrame:
    """Every comparison on the same tasks, by split; Holm's correction over all of them (`statistics.paired`)."""
    what = {(one, other): factor for factor, one, other in comparisons(details)}
    if not what:
        return pd.DataFrame(columns=["factor", "split", "depth", "template_shift", "first", "second", "n", "difference", "p_holm"])
    table = paired(details, list(what), by=["split", "depth", "template_shift"])
    table.insert(0, "factor", [what[pair] for pair in zip(table["first"], table["second"])])
    return table


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


def coverage_by_training(details: pd.DataFrame) -> pd.DataFrame:
    """Executed accuracy where every opcode was trained against where one was not, by arm, wording and depth, over the
    arms that write a program freely (`statistics.coverage_split`)."""
    free = details[(details["format"] == "program_stack") & (details["writer"] == "adapter") & (details["decoding"] == FREE)]
    return coverage_split(free, ["arm", "title", "template_shift", "depth"])
