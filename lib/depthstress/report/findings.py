"""The study's figures, each with its words; every number in them is computed from the tables it is drawn from.

Where the data do not support a sentence, another one stands there.
"""

from __future__ import annotations

from dataclasses import dataclass

import pandas as pd
from matplotlib.figure import Figure

from .. import figures
from ..analysis import Tables
from ..files import write_text
from ..formats import FORMATS
from ..intervals import Rate
from ..runs import Run
from ..tables import rate_of
from ..theme import FAILURE_WORDS, svg

INTERVALS = (
    "Bars are 95% intervals (Wilson's; with several seeds widened by the design effect, seeds as clusters). Points are moved sideways a little, "
    "so that they do not hide each other."
)


@dataclass(frozen=True)
class Finding:
    """A figure, its data, a title that says what was found, how to read it, the takeaway (a line a statement) and a technical framing."""

    name: str
    figure: Figure
    data: pd.DataFrame
    title: str
    reading: str
    takeaway: str
    framing: str


def findings(run: Run, tables: Tables) -> list[Finding]:
    """The five figures of the published study, in its order."""
    return [
        execution_by_depth(tables.details, run.suite.train.depths),
        reworded_by_depth(tables.details),
        written_against_executed(tables.details),
        failure_types(tables.details),
        training_curves(tables.training_log),
    ]


def save_figure(run: Run, finding: Finding) -> None:
    """Write a finding's figure and data to `figures/`."""
    write_text(run.folder / "figures" / f"{finding.name}.svg", svg(finding.figure))
    write_text(run.folder / "figures" / f"{finding.name}.csv", finding.data.to_csv(index=False, lineterminator="\n"))


def execution_by_depth(details: pd.DataFrame, trained: list[int]) -> Finding:
    """Figure 1: accuracy by depth on the standard requests."""
    figure, data = figures.by_depth(details, held_out=False)
    depths = ", ".join(map(str, trained))
    return Finding(
        name="execution_by_depth", figure=figure, data=data,
        title=_depth_title(data),
        reading=f"Across: how many operations the procedure has. Up: the share of procedures whose result is right. A line is an arm. {_left_out(details)}{INTERVALS}",
        takeaway=_depth_takeaway(data),
        framing="Primary accuracy on the standard requests: exact match of the executed program's value for the arms that write instructions, "
        f"exact match of the first written answer for Answer only. Training saw depth {depths} only.",
    )  # fmt: skip


def reworded_by_depth(details: pd.DataFrame) -> Finding:
    """Figure 2: accuracy by depth on the reworded requests."""
    figure, data = figures.by_depth(details, held_out=True)
    arm = headline_arm(data)
    if arm is None:
        title, takeaway = (
            "No arm that writes instructions was evaluated on reworded requests.",
            "This run says nothing about programs and wording.",
        )
    else:
        first, last = _ends(data, arm)
        title = f"Reworded requests: {first.title} is right in {first.correct} of {first.n} at depth {first.depth} and {last.correct} of {last.n} at depth {last.depth}."
        standard = figures.accuracy_table(details, held_out=False)
        same = list(standard[(standard["arm"] == arm) & (standard["depth"] == first.depth)].itertuples())
        takeaway = f"{first.title} at depth {first.depth}: {count_of(first)} on reworded requests"
        takeaway += f", {count_of(same[0])} on standard ones." if same else "."
        if 1 not in set(data["depth"]):
            takeaway += " No depth-1 request is reworded here, so wording and composition are not separated by this figure."
    return Finding(
        name="reworded_by_depth", figure=figure, data=data, title=title, takeaway=takeaway,
        reading=f"As the figure before, on requests whose steps and frames are worded otherwise than the standard ones. {_left_out(details)}{INTERVALS}",
        framing="Primary accuracy under template shift. The tasks are drawn anew from the same families, so they differ from the standard splits in their "
        "programs as well as in their words.",
    )  # fmt: skip


def written_against_executed(details: pd.DataFrame) -> Finding:
    """Figure 3: one arm's own answers against its own instructions, executed."""
    figure, data = figures.written_against_executed(details)
    title = "The arm that writes both was not run on standard requests."
    takeaway = "This run says nothing about written answers against execution."
    if not data.empty:
        pairs = {
            int(depth): tuple(next(rows[rows["read"] == read].itertuples()) for read in ("instructions, executed", "answer, as written"))
            for depth, rows in data.groupby("depth")
        }
        deepest = max(pairs)
        executed, written = pairs[deepest]
        ahead = [depth for depth, (ran, wrote) in pairs.items() if ran.low > wrote.high]
        behind = [depth for depth, (ran, wrote) in pairs.items() if wrote.low > ran.high]
        executed, written = pairs[ahead[-1] if ahead else deepest]
        title = (
            f"At depth {executed.depth} the instructions, executed, are right in {executed.correct} of {executed.n}; "
            f"the answer written below them in {written.correct} of {written.n}."
        )
        sentences = []
        if ahead:
            sentences.append(
                f"Execution beats the model's own answer, with intervals that do not overlap, at depth {listed(ahead)}: there it wrote steps that it did not carry out itself."
            )
        if behind:
            sentences.append(f"The model's own answer beats execution, with intervals that do not overlap, at depth {listed(behind)}.")
        if not sentences:
            sentences.append(
                "At no depth do the two intervals separate: this run does not show that execution recovers answers that the model itself lost."
            )
        own = details[(details["arm"] == "trace_stack_final") & (details["template_shift"] == 0)]
        reverse = int(((own["final_correct"] == 1) & (own["exec_correct"] == 0)).sum())
        sentences.append(f"At depth {executed.depth}: executed {count_of(executed)}, written {count_of(written)}.")
        sentences.append(f"The reverse, a right answer under a wrong program, stands in {reverse} of {len(own)} texts.")
        takeaway = " ".join(sentences)
    return Finding(
        name="written_against_executed", figure=figure, data=data, title=title, takeaway=takeaway,
        reading=f"One arm, {FORMATS['trace_stack_final'].title}: each text holds instructions and then an answer. Solid: the instructions were run by the interpreter. "
        f"Dashed: the answer as the model wrote it. {INTERVALS}",
        framing="Same generations, two readings (exec_correct and final_correct in the tables), on the standard requests. The distance is what a deterministic "
        "interpreter recovers without a new generation.",
    )  # fmt: skip


def failure_types(details: pd.DataFrame) -> Finding:
    """Figure 4: how the program arms fail."""
    figure, data = figures.failure_types(details)
    programs = figures.programs_of(details)
    wrong = programs[programs["exec_correct"] == 0]
    if programs.empty:
        title, takeaway = "No arm that writes instructions was run.", "There are no programs to classify."
    elif wrong.empty:
        title, takeaway = "Every program was right.", f"None of {len(programs)} programs failed."
    else:
        counts = wrong["failure_type"].value_counts()
        under = int((wrong["length"] == "under").sum())
        common = f"The commonest failure is “{FAILURE_WORDS[counts.index[0]]}”: {counts.iloc[0]} of {len(wrong)} wrong programs."
        title = f"Most wrong programs are too short: {under} of {len(wrong)}." if under > len(wrong) / 2 else common
        takeaway = f"{common} {under} of {len(wrong)} have fewer instructions than asked for, {int((wrong['length'] == 'over').sum())} have more; {int((wrong['end'] == 'limit').sum())} were cut off at the token limit."
    return Finding(
        name="failure_types", figure=figure, data=data, title=title, takeaway=takeaway,
        reading=f"A bar is a split, its colours the share of each outcome; green is right. {_left_out(programs)}The data also have the share of programs with fewer, as many and more instructions than gold.",
        framing="Decided in this order: right value with the gold instructions, or with others; no instructions at all; a program without a value "
        "(unknown opcode, bad operand, wrong type, empty stack); a wrong value with other opcodes than gold, which includes missing ones; a wrong value with other operands only.",
    )  # fmt: skip


def training_curves(log: pd.DataFrame) -> Finding:
    """Figure 5: the loss of every adapter."""
    figure, data = figures.training_curves(log)
    last = figures.last_losses(log)
    finite = last[last["last_loss"].notna()]
    if data.empty:
        title, takeaway = "No training log is here.", "Nothing can be said about training."
    elif len(finite) < len(last):
        title = f"The loss of {len(last) - len(finite)} of {len(last)} adapters is not a number at the end."
        takeaway = "Their training diverged: read nothing from what they generate."
    else:
        worst = last.loc[last["last_loss"].idxmax()]
        below = int((last["last_loss"] < 0.1).sum())
        title = f"The loss ends between {last['last_loss'].min():.2g} and {last['last_loss'].max():.2g} nats a target token."
        takeaway = (
            f"After {last['updates'].max()} updates {below} of {len(last)} adapters are below 0.1 nats a target token in their last update, which is one batch; "
            f"the highest last loss is {worst['last_loss']:.2g} ({worst['title']}, seed {worst['seed']})."
        )
    return Finding(
        name="training_curves", figure=figure, data=data, title=title, takeaway=takeaway,
        reading="Across: optimizer updates. Up, on a logarithmic scale: the mean loss of the target's tokens in that update. A line is an arm, its mean over seeds where there are several (single seeds are faint).",
        framing="Cross entropy on the target and its end token only; the prompt is masked. A low loss on the training depth says nothing about deeper "
        "procedures: that is what the other figures measure.",
    )  # fmt: skip


def _left_out(details: pd.DataFrame) -> str:
    if len(figures.shown_arms(details)) == len(details):
        return ""
    return "Shown are the arms that the published study has; the others are in the figures of the controlled experiment and in the full table. "


def _depth_title(data: pd.DataFrame) -> str:
    arm = headline_arm(data)
    if arm is None:
        return "Accuracy by depth."
    first, last = _ends(data, arm)
    if first.depth == last.depth:
        return f"{first.title} is right in {_percent(first)} at depth {first.depth}."
    verb = "falls" if last.high < first.low else "rises" if last.low > first.high else "is not shown to change"
    return f"{first.title} {verb} with depth: {_percent(first)} at depth {first.depth}, {_percent(last)} at depth {last.depth}."


def _depth_takeaway(data: pd.DataFrame) -> str:
    if data.empty:
        return "Nothing was evaluated on the standard requests."
    ends = {arm: _ends(data, arm) for arm in data["arm"].unique()}
    lost = [first.title for first, last in ends.values() if last.high < first.low]
    gained = [first.title for first, last in ends.values() if last.low > first.high]
    first, last = ends[headline_arm(data) or data["arm"].iloc[0]]
    sentence = f"{first.title} is right in {count_of(first)} at depth {first.depth} and in {count_of(last)} at depth {last.depth}."
    if first.depth == last.depth:
        return sentence
    if not lost and not gained:
        return f"{sentence} No arm differs between its shallowest and its deepest split by more than the intervals allow."
    changes = [f"{len(arms)} of {len(ends)} arms {verb} ({'; '.join(arms)})" for arms, verb in ((lost, "fall"), (gained, "rise")) if arms]
    return f"{sentence} From the shallowest to the deepest split, with intervals that do not overlap, {'; '.join(changes)}."


def headline_arm(rows: pd.DataFrame) -> str | None:
    """The arm that sentences are about: the published study's, program_stack; where it was not run, the first that
    writes instructions. Fixed beforehand, since the best of several arms would flatter the result."""
    programs = list(figures.programs_of(rows)["arm"].unique())
    return "program_stack" if "program_stack" in programs else next(iter(programs), None)


def _ends(data: pd.DataFrame, arm: str):
    rows = list(data[data["arm"] == arm].sort_values("depth").itertuples())
    return rows[0], rows[-1]


def _percent(row) -> str:
    return f"{row.accuracy:.0%}"


def count_of(row) -> str:
    return f"{row.correct} of {row.n} ({row.accuracy:.0%}, 95% interval {row.low:.0%} to {row.high:.0%})"


def listed(values: list[int]) -> str:
    return str(values[0]) if len(values) == 1 else f"{', '.join(map(str, values[:-1]))} and {values[-1]}"


def cell_rate(details: pd.DataFrame, arm: str, depth: int, column: str = "primary_correct") -> Rate | None:
    """The rate of a 0/1 column in one arm at one depth of the standard requests; None where it was not run."""
    cell = details[(details["arm"] == arm) & (details["depth"] == depth) & (details["template_shift"] == 0)]
    return rate_of(cell, column) if len(cell) else None
