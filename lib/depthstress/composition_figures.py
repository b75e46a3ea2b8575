"""Figures of the controlled experiment: each function draws one, and returns it with the table that it shows."""

from __future__ import annotations

import numpy as np
import pandas as pd
from matplotlib.figure import Figure
from matplotlib.ticker import FixedLocator, NullFormatter, PercentFormatter

from .arms import DEFAULT
from .composition import arms_of, survival_table, with_coverage
from .figures import accuracy_table, draw_line, shared_legend, small_multiples, subplots
from .formats import FORMATS
from .theme import GREY, look, theme

NEXT = "next_instruction"
DECODED = {
    "free": "whole program",
    "constrained": "whole program, constrained",
    "stepwise_value": "stepwise, sees the value",
    "stepwise_kind": "stepwise, sees the kind",
    "stepwise_kind_constrained": "stepwise, sees the kind, constrained",
    "next_instruction": "stepwise, finds its own place",
}


def decodings(details: pd.DataFrame) -> tuple[Figure, pd.DataFrame]:
    """Accuracy by depth, a line a decoding; a row of panels a training that was decoded stepwise, a column a wording. Arms that
    write the next instruction are a decoding of their own."""
    programs = details[details["format"].isin(["program_stack", NEXT]) & (details["writer"] == "adapter")]
    stepwise = programs.loc[programs["decoding"].str.startswith("stepwise"), "training"]
    trainings = list(dict.fromkeys(stepwise))
    programs = programs.assign(decoding=programs["decoding"].where(programs["format"] != NEXT, NEXT))
    factors = programs.drop_duplicates("arm").set_index("arm")[["training", "decoding"]]
    tables = [accuracy_table(programs, held_out).assign(held_out=int(held_out)) for held_out in (False, True)]
    table = pd.concat(tables, ignore_index=True).join(factors, on="arm")
    table = table[table["training"].isin(trainings)].reset_index(drop=True)
    with theme():
        rows = max(len(trainings), 1)
        figure, panels = subplots(rows, 2, figsize=(8.6, 3.1 * rows + 0.4), sharey=True, squeeze=False)
        for n, training in enumerate(trainings):
            for held_out, axes in enumerate(panels[n]):
                part = table[(table["training"] == training) & (table["held_out"] == held_out)]
                for place, (decoding, line) in enumerate(part.groupby("decoding", sort=False)):
                    draw_line(
                        axes,
                        _aside(line, place),
                        DECODED.get(decoding, decoding),
                        *look(NEXT if decoding == NEXT else "program_stack", decoding),
                    )
                axes.set_title(f"taught “{training}”, {'held-out' if held_out else 'standard'} wording", fontsize=10)
                depth_axis(axes, part["depth"], "right result" if not held_out else "")
        shared_legend(figure, panels.flat, ncols=3)
    return figure, table


def coverage(details: pd.DataFrame, taught: pd.DataFrame) -> tuple[Figure, pd.DataFrame]:
    """Executed accuracy by depth in the standard wording, a line a training: the tasks whose every opcode the suite's own
    training had, beside the others. taught: `composition.taught_table`, which is the data."""
    table = taught[taught["template_shift"] == 0].reset_index(drop=True)
    arms = list(dict.fromkeys([*table["second"], *table["first"]]))
    with theme():
        figure, panels = small_multiples(2, 3.4)
        for side, axes, title in zip(
            (1, 0), panels, ("tasks whose every opcode\nthe suite's own training had", "tasks with an opcode\nthat it lacked")
        ):
            for place, arm in enumerate(arms):
                tasks = with_coverage(details[details["arm"].isin(arms)], arms[0])
                rows = accuracy_table(tasks[(tasks["arm"] == arm) & (tasks["covered"] == side)], False, "exec_correct")
                if len(rows):
                    draw_line(
                        axes,
                        _aside(rows.sort_values("depth"), place),
                        rows["title"].iloc[0],
                        *(("#009e73", "o"), ("#d55e00", "X"))[min(place, 1)],
                    )
            axes.set_title(title, fontsize=9)
            depth_axis(axes, table["depth"], "executed, right" if side else "")
        shared_legend(figure, panels, ncols=2)
    return figure, table


def survival(details: pd.DataFrame) -> tuple[Figure, pd.DataFrame]:
    """The share of programs that are still right after each step, at the deepest depth; a panel a training (the suite's own,
    and those that were decoded stepwise; controls stand in the data alone), a line a format and decoding."""
    table = survival_table(details)
    deepest = table[table["depth"] == table["depth"].max()]
    factors = arms_of(details).set_index("arm")
    shown = deepest.join(factors[["writer", "training"]], on="arm")
    stepwise = factors.loc[factors["decoding"].str.startswith("stepwise"), "training"]
    shown = shown[(shown["writer"] == "adapter") & shown["training"].isin([DEFAULT, *stepwise])]
    trainings = [name for name in dict.fromkeys(factors["training"]) if name in set(shown["training"])]
    with theme():
        figure, panels = small_multiples(len(trainings), 3.2)
        for training, axes in zip(trainings, panels):
            for (form, decoding), rows in shown[shown["training"] == training].groupby(["format", "decoding"], sort=False):
                colour, marker = look(form, decoding)
                label = f"{FORMATS[form].title}, {DECODED.get(decoding, decoding)}"
                axes.step(rows["step"], rows["survival"], where="post", color=colour, linewidth=1.6)
                axes.plot(rows["step"], rows["survival"], linestyle="", marker=marker, color=colour, markersize=4, label=label)
                axes.fill_between(rows["step"], rows["survival_low"], rows["survival_high"], step="post", color=colour, alpha=0.1)
            axes.set(xlabel="step of the program", ylim=(-0.04, 1.04))
            axes.set_title(f"taught “{training}”", fontsize=10)
            axes.yaxis.set_major_formatter(PercentFormatter(1.0))
        panels[0].set_ylabel("right up to and with this step")
        shared_legend(figure, panels, ncols=2)
    return figure, table


def costs(table: pd.DataFrame) -> tuple[Figure, pd.DataFrame]:
    """Odds ratios with their 95% intervals (thick: tasks as clusters; thin: seeds), on a logarithmic axis; below 1 costs."""
    shown = table[table["odds_ratio"].notna()] if "odds_ratio" in table else table.iloc[:0]
    with theme():
        figure, axes = subplots(figsize=(7.2, 0.5 * max(len(shown), 2) + 1.0))
        for place, row in enumerate(shown.itertuples()):
            if not np.isnan(row.low_seeds):
                axes.plot([row.low_seeds, row.high_seeds], [place, place], color=GREY, linewidth=1)
            axes.plot([row.low, row.high], [place, place], color="#0072b2", linewidth=3, solid_capstyle="butt")
            axes.plot(row.odds_ratio, place, marker="o", color="#0072b2", markersize=6)
        axes.axvline(1.0, color=GREY, linewidth=1, linestyle=":")
        axes.set(xscale="log", xlabel="odds ratio of a right result (left of 1: it costs; right: it helps)")
        axes.set_yticks(range(len(shown)), [f"{factor_words(row.factor)}: {contrast_words(row)}" for row in shown.itertuples()])
        axes.invert_yaxis()
        axes.grid(False, axis="y")
    return figure, table


def depth_axis(axes, depths, ylabel: str) -> None:
    """Depths on a logarithmic axis, each with its tick."""
    axes.set(xscale="log", xlabel="depth", ylabel=ylabel, ylim=(-0.04, 1.04))
    axes.xaxis.set_major_locator(FixedLocator(sorted(set(depths)) or [1]))
    axes.xaxis.set_major_formatter(lambda depth, _: f"{depth:.0f}")
    axes.xaxis.set_minor_formatter(NullFormatter())
    axes.minorticks_off()
    axes.yaxis.set_major_formatter(PercentFormatter(1.0))


def factor_words(factor: str) -> str:
    """A factor's column as readers know it."""
    return "wording" if factor == "template_shift" else factor


def contrast_words(row) -> str:
    """A contrast of the costs table as readers know it."""
    level, _, rest = row.contrast.partition(", against ")
    if row.factor == "decoding":
        return f"{DECODED.get(level, level)}, against {DECODED.get(rest, rest)}"
    return row.contrast.replace("_", " ")


def _aside(line: pd.DataFrame, place: int) -> pd.DataFrame:
    """The line's points moved to the right a little, so that lines with the same values don't hide each other."""
    return line.assign(depth=line["depth"] * 1.04**place)
