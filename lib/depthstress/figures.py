"""Tables become figures: each function draws one, and returns it with the table that it shows."""

from __future__ import annotations

import matplotlib.pyplot as plt
import pandas as pd
from matplotlib.figure import Figure
from matplotlib.ticker import MaxNLocator, PercentFormatter

from .formats import FORMATS
from .tables import OWN, rate_of
from .theme import FAILURE_COLOURS, FAILURE_WORDS, GREY, adapter_looks, look, theme

SIZE = (7.2, 3.9)
MOST = 6  # arms that can be told apart in one figure
PANELS = 3  # side by side


def titles_of(details: pd.DataFrame) -> dict[str, str]:
    """Each arm's title."""
    return dict(zip(details["arm"], details["title"]))


def looks_of(details: pd.DataFrame) -> dict[str, tuple[str, str]]:
    """Each arm's colour and marker."""
    return {row.arm: look(row.format, row.decoding) for row in details.drop_duplicates("arm").itertuples()}


def shown_arms(details: pd.DataFrame) -> pd.DataFrame:
    """The rows of all arms, or where they are too many for a figure those of the arms that the published study has."""
    if details["arm"].nunique() <= MOST:
        return details
    for factor, value in OWN.items():
        details = details[details[factor] == value]
    return details


def programs_of(details: pd.DataFrame) -> pd.DataFrame:
    """The rows of the arms that write instructions."""
    return details[details["format"].map(lambda name: FORMATS[name].reads_program).astype(bool)]


def accuracy_table(details: pd.DataFrame, held_out: bool, column: str = "primary_correct") -> pd.DataFrame:
    """The rate of a 0/1 column by arm and depth in one wording: n, rate and 95% interval."""
    rows = []
    for (*arm, depth), cell in details[details["template_shift"] == int(held_out)].groupby(["arm", "title", "format", "depth"], sort=False):
        shown = rate_of(cell, column)
        rows.append({**dict(zip(("arm", "title", "format"), arm)), "depth": depth, "n": shown.n, "correct": shown.hits, "accuracy": shown.value,
                     "low": shown.low, "high": shown.high})  # fmt: skip
    return pd.DataFrame(rows, columns=["arm", "title", "format", "depth", "n", "correct", "accuracy", "low", "high"])


def by_depth(details: pd.DataFrame, held_out: bool) -> tuple[Figure, pd.DataFrame]:
    """Primary accuracy by depth, a line an arm (`shown_arms`), in the standard or in held-out wording."""
    details = shown_arms(details)
    table, looks = accuracy_table(details, held_out), looks_of(details)
    with theme():
        figure, axes = subplots(figsize=SIZE)
        for offset, ((arm, title), rows) in enumerate(table.groupby(["arm", "title"], sort=False)):
            draw_line(axes, rows, title, *looks[arm], shift=(offset - (len(looks) - 1) / 2) * min(0.05, 0.4 / len(looks)))
        _depth_axes(axes, table, "right result")
    return figure, table


def written_against_executed(details: pd.DataFrame, arm: str = "trace_stack_final") -> tuple[Figure, pd.DataFrame]:
    """For the arm that writes both: its written answers, and its instructions executed, by depth; standard requests."""
    own = details[details["arm"] == arm]
    executed = accuracy_table(own, held_out=False, column="exec_correct").assign(read="instructions, executed")
    written = accuracy_table(own, held_out=False, column="final_correct").assign(read="answer, as written")
    table = pd.concat([executed, written], ignore_index=True)[["read", "depth", "n", "correct", "accuracy", "low", "high"]]
    colour, marker = look(arm, "free")
    with theme():
        figure, axes = subplots(figsize=SIZE)
        for shift, (read, rows) in zip((-0.03, 0.03), table.groupby("read", sort=False)):
            is_executed = read.startswith("instructions")
            draw_line(axes, rows, read, colour if is_executed else GREY, marker if is_executed else "v", shift,
                  "-" if is_executed else "--")  # fmt: skip
        _depth_axes(axes, table, "correct")
    return figure, table


def failure_types(details: pd.DataFrame) -> tuple[Figure, pd.DataFrame]:
    """The share of each outcome, a panel a program arm (`shown_arms`), a bar a split; the data, of all program arms, also
    have the lengths against gold."""
    programs, titles = programs_of(details), titles_of(details)
    cells = programs.groupby(["arm", "split"], sort=False)
    counts = programs.groupby(["arm", "split", "failure_type"], sort=False).size().unstack(fill_value=0)
    counts = counts.reindex(columns=[name for name in FAILURE_COLOURS if name in counts])
    shares = counts.div(counts.sum(axis=1), axis=0)
    labels = {row.split: short_split(row.depth, row.template_shift) for row in programs.itertuples()}
    arms = list(dict.fromkeys(shown_arms(programs)["arm"]))
    with theme():
        figure, panels = small_multiples(len(arms), 2.9)
        for axes, arm in zip(panels, arms):
            _stack(axes, shares.loc[arm], labels)
            axes.set_title(wrapped(titles[arm]), fontsize=9)
            axes.set_xlabel("depth (* held-out wording)")
        shared_legend(figure, panels, ncols=3)
    lengths = {name: cells["length"].agg(lambda length, name=name: (length == name).mean()) for name in ("under", "exact", "over")}
    table = shares.assign(**{f"length {name}": values for name, values in lengths.items()}, n=counts.sum(axis=1)).reset_index()
    return figure, table


def training_curves(log: pd.DataFrame) -> tuple[Figure, pd.DataFrame]:
    """Mean loss a target token by update, a line an adapter (faint ones for single seeds); logarithmic."""
    with theme():
        figure, axes = subplots(figsize=SIZE)
        looks = adapter_looks(list(dict.fromkeys(zip(log["format"], log["training"]))))
        for (title, form, training), rows in log.groupby(["title", "format", "training"], sort=False):
            colour, marker, style = looks[form, training]
            for _, one in rows.groupby("seed", sort=False):
                axes.plot(one["step"], one["loss"], color=colour, alpha=0.25, linewidth=1, linestyle=style)
            mean = rows.groupby("step")["loss"].mean()
            axes.plot(mean.index, mean.values, color=colour, label=title, linewidth=2, linestyle=style,
                      marker=marker, markevery=max(len(mean) // 8, 1), markersize=5)  # fmt: skip
        axes.set(xlabel="update", ylabel="loss a target token (nats)", yscale="log")
        axes.xaxis.set_major_locator(MaxNLocator(integer=True))
        if len(log):
            axes.legend(loc="upper left", bbox_to_anchor=(1.0, 1.0))
    return figure, log[["adapter", "title", "seed", "step", "loss", "target_tokens"]].reset_index(drop=True)


def last_losses(log: pd.DataFrame) -> pd.DataFrame:
    """One row an adapter: its updates, and the loss of its first and last."""
    last = log.groupby(["adapter", "title", "seed"], sort=False).agg(
        updates=("step", "max"), first_loss=("loss", "first"), last_loss=("loss", lambda losses: losses.iloc[-1])
    )
    return last.reset_index()


def subplots(*arguments, **options):
    """`plt.subplots`, closed at once: the figure can still be drawn on, shown and saved, but a notebook does not
    show it a second time by itself."""
    figure, axes = plt.subplots(*arguments, **options)
    plt.close(figure)
    return figure, axes


def small_multiples(count: int, height: float):
    """A figure of `count` panels (one where there are none), and these; the rest of the last row is empty."""
    columns = min(max(count, 1), PANELS)
    rows = -(-max(count, 1) // columns)
    figure, panels = subplots(rows, columns, figsize=(3.0 * columns + 0.6, height * rows + 0.4), sharey=True, squeeze=False)
    panels = list(panels.flat)
    for axes in panels[max(count, 1) :]:
        axes.set_axis_off()
    return figure, panels[: max(count, 1)]


def shared_legend(figure: Figure, panels, ncols: int) -> None:
    """One legend below all panels, each label once; call it last."""
    figure.tight_layout()
    handles = {label: handle for axes in panels for handle, label in zip(*axes.get_legend_handles_labels())}
    if handles:
        figure.legend(handles.values(), handles.keys(), loc="upper center", ncols=ncols, bbox_to_anchor=(0.5, 0.0))


def wrapped(title: str) -> str:
    """An arm's title in two lines, its notes below."""
    head, _, notes = title.partition(" (")
    return f"{head}\n({notes}" if notes else head


def draw_line(axes, rows: pd.DataFrame, label: str, colour: str, marker: str, shift: float = 0.0, style: str = "-") -> None:
    errors = [(rows["accuracy"] - rows["low"]).clip(lower=0), (rows["high"] - rows["accuracy"]).clip(lower=0)]
    axes.errorbar(rows["depth"] + shift, rows["accuracy"], yerr=errors, label=label, color=colour, marker=marker, linestyle=style,
                  capsize=3, linewidth=1.8, elinewidth=1, markersize=6)  # fmt: skip


def _depth_axes(axes, table: pd.DataFrame, ylabel: str) -> None:
    axes.set(xlabel="operations in the procedure (depth)", ylabel=ylabel, ylim=(-0.04, 1.04))
    axes.set_xticks(sorted(table["depth"].unique()))
    axes.yaxis.set_major_formatter(PercentFormatter(1.0))
    if len(table):
        axes.legend(loc="upper left", bbox_to_anchor=(1.0, 1.0))


def _stack(axes, shares: pd.DataFrame, labels: dict[str, str]) -> None:
    bottom = pd.Series(0.0, index=shares.index)
    for failure in shares:
        colour = FAILURE_COLOURS[failure]
        axes.bar([labels[split] for split in shares.index], shares[failure], bottom=bottom.values, color=colour,
                 label=FAILURE_WORDS[failure], width=0.8)  # fmt: skip
        bottom += shares[failure]
    axes.yaxis.set_major_formatter(PercentFormatter(1.0))
    axes.grid(False, axis="x")


def short_split(depth: int, held_out: int) -> str:
    """A split as an axis shows it."""
    return f"{depth}*" if held_out else str(depth)
