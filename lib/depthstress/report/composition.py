"""The controlled experiment in words: never taught, or not composed? Each figure with what its data support."""

from __future__ import annotations

import pandas as pd

from .. import composition_figures as figures
from ..analysis import Tables
from ..composition import arms_of
from ..intervals import LEVEL
from ..plain import WORDING, each
from ..runs import Run
from ..tables import rate_of
from .findings import INTERVALS, Finding, count_of, listed
from .page import Page

WORDS = {0: "standard", 1: "held-out"}  # wordings, before the noun
FAULTS = {
    "wrong_op_order_or_choice": "have another instruction where gold has its own",
    "wrong_constant_or_argument": "have the right instructions with other operands",
    "invalid_or_unexecutable": "can't be carried out",
    "empty_or_no_program": "have no instruction",
}
MEASURE_WORDS = {"right": "right results", "stops early": "programs that stop early"}


def composition_findings(tables: Tables) -> list[Finding]:
    """The figures of the experiment that the run's arms allow; [] for the published arms alone."""
    arms = arms_of(tables.details)
    found = []
    if arms["decoding"].str.startswith("stepwise").any():
        found.append(decodings(tables.details))
    if len(tables.taught):
        found.append(coverage(tables.details, tables.taught))
    if found:
        found += [survival(tables.details), costs(tables.costs)]
    return found


def decodings(details: pd.DataFrame) -> Finding:
    """Whole program, constrained and stepwise, by depth and wording."""
    figure, data = figures.decodings(details)
    sentences = []
    for training, rows in data.groupby("training", sort=False):
        for held_out, words in WORDS.items():
            part = rows[rows["held_out"] == held_out]
            if len(part) and (sentence := _at_the_deepest(part)):
                sentences.append(f"Taught “{training}”, {words} wording: {sentence}")
    title = sentences[0].split(": ", 1)[1] if sentences else "No arm was decoded stepwise."
    sentences += [*_why_steps_fail(details), *_own_place(details)]
    return Finding(
        name="decodings", figure=figure, data=data, title=title[0].upper() + title[1:], takeaway="\n".join(sentences) or title,
        reading="Across: depth, on a logarithmic axis. Up: the share of right results. The lines of a panel share one adapter and differ only in how its text is "
        "decoded: the whole program at once, the whole program within a grammar, or one step at a time with the interpreter in between. "
        "Where a line “finds its own place” it is another adapter's, which was taught to write the next instruction or END from the whole request and the program so far. "
        f"A row of panels is what the adapter was taught, a column the wording of the steps. {INTERVALS}",
        framing="The other stepwise arms get the steps already split (oracle segmentation) and, in every prompt, a frame that training had; “sees the kind” hides the value and shows a "
        "sample of its kind, so that the model never copies it. Their accuracy is that of the interpreter with the model as a compiler of single steps.",
    )  # fmt: skip


def _at_the_deepest(part: pd.DataFrame) -> str:
    deepest = part["depth"].max()
    cells = {row.decoding: row for row in part[part["depth"] == deepest].itertuples()}
    steps = [cells[name] for name in ("stepwise_kind", "stepwise_value") if name in cells]
    if "free" not in cells or not steps:
        return ""
    best, free = steps[0], cells["free"]
    verdict = "the intervals are apart" if best.low > free.high or free.low > best.high else "the intervals overlap"
    return f"at depth {deepest}, one step at a time gets {count_of(best)}, the whole program at once {count_of(free)}; {verdict}."


def _why_steps_fail(details: pd.DataFrame) -> list[str]:
    """What is wrong with the wrong programs of the arms that get one held-out step at a time; a sentence a training."""
    steps = details[
        (details["format"] == "program_stack") & details["decoding"].str.startswith("stepwise") & (details["template_shift"] == 1)
    ]
    return [f"Taught “{training}”, one step at a time, held-out wording: of {len(wrong)} wrong programs {_faults(wrong)}."
            for training, wrong in steps[steps["primary_correct"] == 0].groupby("training", sort=False)]  # fmt: skip


def _faults(wrong: pd.DataFrame) -> str:
    counts = wrong["failure_type"].value_counts()
    return ", ".join(f"{counts[name]} {words}" for name, words in FAULTS.items() if name in counts)


def _own_place(details: pd.DataFrame) -> list[str]:
    """How the loops without oracle do, and how they end where they are wrong; a sentence an arm and wording."""
    sentences = []
    loops = details[details["format"] == figures.NEXT]
    for (title, held_out), rows in loops.groupby(["title", "template_shift"], sort=False):
        depths = [rows[rows["depth"] == depth] for depth in (rows["depth"].min(), rows["depth"].max())]
        right = " and ".join(f"{rate_of(part, 'primary_correct')} at depth {part['depth'].iloc[0]}" for part in depths)
        wrong = rows[rows["primary_correct"] == 0]
        early = (wrong["end"] == "eos") & (wrong["length"] == "under")
        one = early & (wrong["instructions"] == wrong["gold_instructions"] - wrong["depth"] + 1)  # what loads the input is no operation
        ends = {
            f"said END too early ({one.sum()} of these after one operation)": early,
            "wrote another program to its END": (wrong["end"] == "eos") & ~early,
            "wrote an instruction that can't be carried out": wrong["end"] == "failed",
            "never said END": wrong["end"] == "limit",
        }
        how = ", ".join(f"{flags.sum()} {words}" for words, flags in ends.items() if flags.any())
        sentences.append(f"{title}, {WORDS[held_out]} wording: right in {right}; of {len(wrong)} wrong ones at all depths {how or 'none'}.")
    return sentences


def coverage(details: pd.DataFrame, taught: pd.DataFrame) -> Finding:
    """What was taught against what was not, by depth."""
    figure, data = figures.coverage(details, taught)
    titles = dict(zip(details["arm"], details["title"]))
    lacked, had = (data[data["covered"] == side] for side in (0, 1))
    gains = [row.depth for row in lacked.itertuples() if row.p_holm < 1 - LEVEL and row.difference > 0]
    losses = [row.depth for row in had.itertuples() if row.p_holm < 1 - LEVEL and row.difference < 0]
    sentences = [
        f"{where} {titles[row.first]} against {titles[row.second]}, depth {row.depth}: {row.rate_first:.0%} against {row.rate_second:.0%} of {row.n}, "
        f"difference {100 * row.difference:+.0f} points (95% interval {100 * row.low:+.0f} to {100 * row.high:+.0f})."
        for rows, where in (
            (lacked, "Tasks with an opcode that the suite's own training lacked:"),
            (had, "Tasks whose every opcode it had:"),
        )
        for _, line in rows.groupby("first", sort=False)
        for row in (line.iloc[0], line.iloc[-1])
    ]
    if losses:
        sentences.append(
            f"Where every opcode had been taught before, the same budget spread over more opcodes costs significantly at depth {listed(losses)}."
        )
    title = (
        f"Teaching the missing opcodes helps significantly where one was missing, at depth {listed(sorted(set(gains)))}."
        if gains
        else "At no depth does this run show that teaching the missing opcodes helps."
    )
    return Finding(
        name="coverage", figure=figure, data=data, title=title, takeaway="\n".join(dict.fromkeys(sentences)) or "No cell has such tasks.",
        reading="Left: tasks of which the suite's own training had every opcode; right: tasks with an opcode that it lacked. Lines are trainings with the same budget of updates, "
        f"on the same tasks; both write the whole program freely. {INTERVALS}",
        framing="Standard wording, executed accuracy. The two panels are not comparable with each other: tasks with a missing opcode come from the families that have one. The lines of "
        "a panel are: their difference is what coverage costs, with Tango's interval for paired tasks and McNemar's exact p, Holm-corrected, in the data.",
    )  # fmt: skip


def survival(details: pd.DataFrame) -> Finding:
    """Where programs go wrong."""
    figure, data = figures.survival(details)
    deepest = data[data["depth"] == data["depth"].max()]
    lost: dict[int, list[str]] = {}  # by the step at which fewer than half are left
    kept = []
    for title in [title for title in arms_of(details)["title"] if title in set(deepest["title"])]:
        rows = deepest[deepest["title"] == title]
        below = rows[rows["survival"] < 0.5]
        if len(below):
            lost.setdefault(below.iloc[0].step, []).append(title)
        else:
            kept.append(f"{title} ({rows.iloc[-1].survival:.0%})")
    lines = [f"Half are lost by step {step}: {'; '.join(titles)}." for step, titles in sorted(lost.items())]
    lines += [f"More than half are right to the end: {'; '.join(kept)}."] if kept else []
    depth = deepest["depth"].max() if len(deepest) else 0
    return Finding(
        name="survival", figure=figure, data=data, title=f"Where programs of depth {depth} go wrong.", takeaway="\n".join(lines) or "No arm writes programs there.",
        reading="Across: the steps of the gold program, the loading ones included. Up: the share of programs whose instructions equal gold up to and with this step; the shade is the 95% interval. "
        "A line that falls at once has lost its way at the start, one that falls step by step pays for every step.",
        framing="Product-limit estimate with exact match of instructions (not of values); a program that stops early fails at the step where the next instruction was due. The data have all depths.",
    )  # fmt: skip


def costs(table: pd.DataFrame) -> Finding:
    """What costs what."""
    figure, data = figures.costs(table)
    rows = data[data["odds_ratio"].notna()] if "odds_ratio" in data else data.iloc[:0]
    words = [
        f"{figures.factor_words(row.factor).capitalize()}, {figures.contrast_words(row)}: {row.points:+.0f} points, odds ratio {_ratio(row.odds_ratio)} (95% interval {_ratio(row.low)} to {_ratio(row.high)})."
        for row in rows.sort_values("points").itertuples()
    ]
    costly = rows.loc[rows["points"].idxmin()] if len(rows) else None
    title = (
        f"What costs most: {figures.factor_words(costly.factor)}, {figures.contrast_words(costly)} ({costly.points:+.0f} points)."
        if costly is not None
        else "Nothing could be estimated."
    )
    return Finding(
        name="costs", figure=figure, data=data, title=title, takeaway="\n".join(words) or title,
        reading="A row is a factor, with everything else held. Left of the dotted line it makes a right result less likely, right of it more. Thick: 95% interval with tasks as clusters; thin: with seeds.",
        framing="One logistic model of executed accuracy over all arms that write a program with a taught adapter, Firth's penalty; points are average differences of the predicted probability. "
        "It has no interactions: an average over arms, not a law.",
    )  # fmt: skip


def _ratio(value: float) -> str:
    return f"{value:,.0f}" if value >= 10 else f"{value:.2g}"


def comparisons_section(page: Page, run: Run, tables: Tables) -> None:
    """Arms that differ in one factor, on the same tasks: what was significantly better or worse, and every cell."""
    table = tables.comparisons
    if table.empty:
        return
    page.text(
        "**Paired comparisons.** Arms that differ in one factor, on the same tasks. p is McNemar's exact test with Holm's correction over all cells of a measure; the interval is "
        "Tango's, and beside it, with several seeds, the cluster bootstrap over seeds.",
        "\n".join(f"- {sentence}" for sentence in compared(run, table)),
    )
    points = 100 * table[["difference", "low", "high", "low_seeds", "high_seeds"]]
    shown = pd.DataFrame({
        "differs in": table["factor"], "measure": table["measure"], "wording": table["template_shift"].map(WORDING),
        "depth": table["depth"], "arm": table["first"].map(lambda arm: run.arm(arm).shown),
        "compared with": table["second"].map(lambda arm: run.arm(arm).shown), "n": table["n"],
        "difference, points": each(points, "difference", "low", "high", form="{:+.0f} ({:+.0f} to {:+.0f})"),
        "over seeds": each(points, "low_seeds", "high_seeds", form="{:+.0f} to {:+.0f}", missing="–"),
        "p, Holm": each(table, "p_holm", form="{:.2g}"),
    })  # fmt: skip
    page.table(shown, "Every paired comparison", fold="Every paired comparison")


def compared(run: Run, table: pd.DataFrame) -> list[str]:
    """A sentence a comparison and measure: in how many cells the first arm is significantly above or below the second."""
    sentences = []
    for (first, second, measure), rows in table.groupby(["first", "second", "measure"], sort=False):
        clear = rows[rows["p_holm"] < 1 - LEVEL]
        ups, downs = (clear[clear["difference"] > 0], clear[clear["difference"] < 0])
        said = [f"significantly {word} in {len(part)} ({_where(part)})" for word, part in (("more", ups), ("less", downs)) if len(part)]
        sentences.append(
            f"{run.arm(first).shown} against {run.arm(second).shown}, {MEASURE_WORDS[measure]}: of {len(rows)} cells {' and '.join(said) or 'none differs significantly'}; "
            f"{100 * rows['difference'].min():+.0f} to {100 * rows['difference'].max():+.0f} points."
        )
    return sentences


def _where(rows: pd.DataFrame) -> str:
    return ", ".join(
        f"depth {row.depth}{', held out' if row.template_shift else ''}: {100 * row.difference:+.0f}" for row in rows.itertuples()
    )
