"""The statistics of a run as plain text tables, for a terminal."""

from __future__ import annotations

from itertools import combinations

import pandas as pd

from .effects import what_costs_what
from .statistics import coverage_split, paired
from .survival import survival

WORDING = {0: "standard", 1: "held out"}


def statistics_text(details: pd.DataFrame) -> str:
    """Coverage, survival, factors of the arms that write programs, and paired tests of all arms, each under its heading."""
    programs = details[details["length"] != ""]
    parts = {
        "Executed accuracy by whether the training data had every opcode of the task (program arms)": coverage_table(programs),
        "Instructions: step i right, given that all before it were (program arms; standard wording)": survival_table(programs),
        "What costs what: logistic model of executed accuracy (program arms), 95% intervals by task and by seed": effects_table(programs),
        "Arms on the same tasks: difference in points; exact McNemar test, Holm's correction over all of them": paired_table(details),
    }
    return "\n\n".join(f"{heading}\n{table.to_string(index=False)}" for heading, table in parts.items())


def coverage_table(programs: pd.DataFrame) -> pd.DataFrame:
    """`statistics.coverage_split` by wording and depth, and for all depths of a wording."""
    split = pd.concat([coverage_split(programs), coverage_split(programs, ["template_shift"]).assign(depth="all")], ignore_index=True)
    return pd.DataFrame({
        "wording": split["template_shift"].map(WORDING), "depth": split["depth"],
        **{f"{name} (n)": each(split, f"rate_{name}", f"n_{name}", form="{:.1%} ({:.0f})") for name in ("trained", "untrained")},
        "difference": _points(split, "difference", "low", "high"),
    })  # fmt: skip


def survival_table(programs: pd.DataFrame) -> pd.DataFrame:
    """`survival.survival` by depth: a row a step, the survival and its interval in the columns."""
    table = survival(programs[programs["template_shift"] == 0], ["depth"])
    table["shown"] = each(table, "survival", "survival_low", "survival_high", form="{:.0%} ({:.0%} to {:.0%})")
    wide = table.pivot(index="step", columns="depth", values="shown").fillna("").reset_index()
    return wide.rename(columns=lambda name: name if name == "step" else f"depth {name}").rename_axis(columns=None)


def effects_table(programs: pd.DataFrame) -> pd.DataFrame:
    """`effects.what_costs_what`, rounded."""
    table = what_costs_what(programs)
    return pd.DataFrame({
        "factor": table["factor"], "contrast": table["contrast"],
        "odds ratio": each(table, "odds_ratio", "low", "high", form="{:.3g} ({:.3g} to {:.3g})"),
        "by seed": each(table, "low_seeds", "high_seeds", form="{:.3g} to {:.3g}"),
        "points": each(table, "points", "points_low", "points_high", form="{:+.1f} ({:+.1f} to {:+.1f})"),
        "p": each(table, "p", form="{:.2g}"), "estimated": table["estimated"],
    })  # fmt: skip


def paired_table(details: pd.DataFrame) -> pd.DataFrame:
    """`statistics.paired` for every two arms: a row a split, first - second in points and Holm's p in the columns."""
    arms = list(details["arm"].unique())[::-1]
    table = paired(details, list(combinations(arms, 2)), ["split"])
    table["shown"] = each(table.assign(points=100 * table["difference"]), "points", "p_holm", form="{:+.1f}, p {:.2g}")
    wide = table.pivot(index="split", columns=["first", "second"], values="shown").reset_index()
    return wide.rename(columns=lambda name: f"- {name}" if name in arms else name, level="second").rename_axis(columns=[None, None])


def _points(table: pd.DataFrame, *columns: str) -> list[str]:
    """Rates as percentage points with their interval."""
    return each(table[list(columns)] * 100, *columns, form="{:+.1f} ({:+.1f} to {:+.1f})")


def each(table: pd.DataFrame, *columns: str, form: str, missing: str = "") -> list[str]:
    """The columns of every row, formatted; `missing` where the first is missing."""
    return [missing if pd.isna(row[0]) else form.format(*row) for row in zip(*(table[column] for column in columns))]
