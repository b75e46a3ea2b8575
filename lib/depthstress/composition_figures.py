"""Figures of the controlled experiment: each function draws one, and returns it with the table that it shows."""

from __future__ import annotations

import numpy as np
import pandas as pd
from matplotlib.figure import Figure
from matplotlib.ticker import FixedLocator, NullFormatter, PercentFormatter

from .composition import coverage_by_training, survival_table
from .figures import accuracy_table, draw_line, subplots
from .theme import GREY, look, theme

DECODED = {
    "free": "whole program",
    "constrained": "whole program, constrained",
    "stepwise_value": "stepwise, sees the value",
    "stepwise_kind": "stepwise, sees the kind",
    "stepwise_kind_constrained": "stepwise, sees the kind, constrained",
}


def decodings(details: pd.DataFrame) -> tuple[Figure, pd.DataFrame]:
    """Accuracy by depth, a line a decoding; a row of panels a training that was decoded stepwise, a column a wording."""
    programs = details[(details["format"] == "program_stack") & (details["writer"] == "adapter")]
    stepwise = programs.loc[programs["decoding"].str.startswith("stepwise"), "training"]
    trainings = list(dict.fromkeys(stepwise))
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
                    draw_line(axes, _aside(line, place), DECODED.get(decoding, decoding), *look("program_stack", decoding))
                axes.set_title(f"taught “{training}”, {'held-out' if held_out else 'standard'} wording", fontsize=10)
                depth_axis(axes, part["depth"], "right result" if not held_out else "")
        if trainings:
            handles = {label: handle for row in panels for axes in row for handle, label in zip(*axes.get_legend_handles_labels())}
            figure.legend(handles.values(), handles.keys(), loc="upper center", ncols=3, bbox_to_anchor=(0.5, 0.0))
        figure.tight_layout()
    return figure, table


def coverage(details: pd.DataFrame) -> tuple[Figure, pd.DataFrame]:
    """Executed accuracy by depth in the standard wording, tasks whose opcodes were all trained apart from the others; a panel an arm."""
    table = coverage_by_training(details)
    table = table[table["template_shift"] == 0].reset_index(drop=True)
    arms = list(dict.fromkeys(table["arm"]))
    with theme():
        figure, panels = subplots(1, max(len(arms), 1), figsize=(3.1 * max(len(arms), 1) + 0.8, 3.6), sharey=True, squeeze=False)
        for axes, arm in zip(panels[0], arms):
            rows = table[table["arm"] == arm]
            for place, (side, style) in enumerate((("trained", ("#009e73", "o")), ("untrained", ("#d55e00", "X")))):
                line = rows[rows[f"n_{side}"] > 0]
                line = pd.DataFrame(
                    {"depth": line["depth"], "accuracy": line[f"rate_{side}"], "low": line[f"low_{side}"], "high": line[f"high_{side}"]}
                )
                if len(line):
                    draw_line(axes, _aside(line, place), "every opcode trained" if side == "trained" else "an opcode never trained", *style)
            axes.set_title("\n".join(_wrapped(rows["title"].iloc[0])), fontsize=9)
            depth_axis(axes, rows["depth"], "executed, right" if arm == arms[0] else "")
        if arms:
            handles = {label: handle for axes in panels[0] for handle, label in zip(*axes.get_legend_handles_labels())}
            figure.legend(handles.values(), handles.keys(), loc="upper center", ncols=2, bbox_to_anchor=(0.5, 0.0))
        figure.tight_layout()
    return figure, table


def survival(details: pd.DataFrame) -> tuple[Figure, pd.DataFrame]:
    """The share of programs that are still right after each step, at the deepest depth; a line an arm."""
    table = survival_table(details)
    deepest = table[table["depth"] == table["depth"].max()].reset_index(drop=True)
    with theme():
        figure, axes = subplots(figsize=(7.2, 4.2))
        for (title, form, decoding), rows in deepest.groupby(["title", "format", "decoding"], sort=False):
            colour, marker = look(form, decoding)
            axes.step(rows["step"], rows["survival"], where="post", color=colour, linewidth=1.6, label=title)
            axes.plot(rows["step"], rows["survival"], linestyle="", marker=marker, color=colour, markersize=4)
            axes.fill_between(rows["step"], rows["survival_low"], rows["survival_high"], step="post", color=colour, alpha=0.1)
        axes.set(xlabel="step of the program", ylabel="right up to and with this step", ylim=(-0.04, 1.04))
        axes.yaxis.set_major_formatter(PercentFormatter(1.0))
        if len(deepest):
            axes.legend(loc="upper left", bbox_to_anchor=(1.0, 1.0), fontsize=8)
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
        axes.set_yticks(range(len(shown)), [f"{factor_words(row.factor)}: {row.contrast}" for row in shown.itertuples()])
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


def _aside(line: pd.DataFrame, place: int) -> pd.DataFrame:
    """The line's points moved to the right a little, so that lines with the same values don't hide each other."""
    return line.assign(depth=line["depth"] * 1.04**place)


def _wrapped(title: str) -> list[str]:
    head, _, notes = title.partition(" (")
    return [head, f"({notes}"] if notes else [head]
