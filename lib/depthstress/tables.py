"""From generations to tables: details (a row a generation), metrics (arm, seed, split), summary (arm, split).

Metrics and summary have the published run's columns first, ours behind. Pure: rows in, data frames out.
"""

from __future__ import annotations

import pandas as pd

from .arms import DEFAULT, Arm
from .formats import FORMATS
from .intervals import rate
from .scoring import score_text
from .tasks import FAMILIES, Example

FAILURES = (
    "n/a_answer_only",
    "correct_exact",
    "correct_semantic_variant",
    "invalid_or_unexecutable",
    "empty_or_no_program",
    "wrong_op_order_or_choice",
    "wrong_constant_or_argument",
)
LENGTHS = ("under", "exact", "over")
OWN = {"writer": "adapter", "training": DEFAULT, "decoding": "free"}  # the published arms'; their own tables lack these columns
CELL = ["suite", "run", "arm", "seed", "trained", "split", "depth", "template_shift"]


def detail(run: dict, arm: Arm, example: Example, generation: dict, trained_opcodes: set[str]) -> dict:
    """One generation, scored, with all that a reader needs to check it. `run` holds suite and run name."""
    failure = generation.get("failure") or ""
    scored = score_text(arm.written, generation["text"], example, failed=bool(failure))
    return {
        **run,
        "arm": arm.name,
        "seed": example.seed,
        "trained": int(arm.writer == "adapter"),
        "split": example.split,
        "depth": example.depth,
        "template_shift": int(example.wording == "held_out"),
        "title": arm.shown,
        "format": arm.format,
        "writer": arm.writer,
        "training": arm.training,
        "decoding": arm.decoded,
        "family": example.family,
        "example_id": example.id,
        "coverage": int(trained_opcodes.issuperset(example.operations)),
        "answer": example.answer,
        "target": arm.written.target(example),
        "generated": generation["text"],
        "end": generation["end"],
        "failure": failure,
        "new_tokens": generation["new_tokens"],
        "prompt_sha256": generation["prompt_sha256"],
        **{name: int(value) if isinstance(value, bool) else value for name, value in vars(scored).items()},
    }


def metrics(details: pd.DataFrame, absent_failure: float | None = 0.0) -> pd.DataFrame:
    """One row an arm, seed and split.

    absent_failure: the rate of a failure type that a cell does not have. The published tables leave it
    empty (None), so that their means cover only the seeds that had it; ours say 0.
    """
    details = details.reset_index(drop=True)
    cell = details.groupby(CELL, sort=False).ngroup()  # each row's, numbered in order of appearance
    table = details.loc[~cell.duplicated(), CELL].reset_index(drop=True)
    measures = {"n": cell.groupby(cell).size(), **_rates(details, cell), **_failures(details, cell, absent_failure), **_ours(details, cell)}
    return table.assign(**measures)


def summary(metrics: pd.DataFrame) -> pd.DataFrame:
    """One row an arm and split: means and sample standard deviations (n - 1) over seeds; 0 for one seed."""
    measures = [column for column in metrics if column not in (*CELL, "n")]
    rows = []
    for key, cell in metrics.groupby(["suite", "arm", "split", "depth", "template_shift"], sort=False):
        row = dict(zip(["suite", "arm", "split", "depth", "template_shift"], key))
        row |= {"runs": len(cell), "n_total": int(cell["n"].sum())}
        for measure in measures:
            values = cell[measure].dropna()
            row[f"{measure}_mean"] = values.mean() if len(values) else None
            row[f"{measure}_std"] = (values.std(ddof=1) if len(values) > 1 else 0.0) if len(values) else None
        primary = rate([round(v) for v in cell["primary_accuracy"] * cell["n"]], list(cell["n"]))
        rows.append(row | {"primary_accuracy_low": primary.low, "primary_accuracy_high": primary.high})
    return pd.DataFrame(rows)


def coverage(details: pd.DataFrame) -> pd.DataFrame:
    """Executed accuracy of the arms that write programs freely with an adapter of the suite's own training, split by
    whether that training contained every opcode of the gold program: one row a wording, depth and coverage, then one over all reworded depths."""
    programs = details[details["format"].map(lambda name: FORMATS[name].reads_program).astype(bool)]
    for factor, value in OWN.items():
        programs = programs[programs[factor] == value] if factor in programs else programs
    groups = [(("standard", depth), cell) for depth, cell in programs[programs["template_shift"] == 0].groupby("depth")]
    reworded = programs[programs["template_shift"] == 1]
    groups += [(("reworded", depth), cell) for depth, cell in reworded.groupby("depth")]
    if reworded["depth"].nunique() > 1:
        groups.append((("reworded", "all"), reworded))
    rows = []
    for (wording, depth), cell in groups:
        for covered, part in cell.groupby("coverage", sort=False):
            accuracy = rate_of(part, "exec_correct")
            rows.append({"wording": wording, "depth": depth, "every_opcode_trained": int(covered), "n": accuracy.n,
                         "exec_accuracy": accuracy.value, "low": accuracy.low, "high": accuracy.high})  # fmt: skip
    table = pd.DataFrame(rows, columns=["wording", "depth", "every_opcode_trained", "n", "exec_accuracy", "low", "high"])
    return table.sort_values(["wording", "depth", "every_opcode_trained"], ascending=[False, True, False], key=_mixed, ignore_index=True)


def _mixed(column: pd.Series) -> pd.Series:
    """Depths in numeric order, "all" last."""
    return column.map(lambda value: 10**6 if value == "all" else value) if column.name == "depth" else column


def rate_of(details: pd.DataFrame, column: str):
    """The rate of a 0/1 column over rows, with seeds as clusters."""
    counts = details.groupby("seed")[column].agg(["sum", "size"])
    return rate([int(v) for v in counts["sum"]], [int(v) for v in counts["size"]])


def _rates(details: pd.DataFrame, cell: pd.Series) -> dict[str, pd.Series]:
    def mean(column: str) -> pd.Series:
        return details[column].groupby(cell).mean()

    rates = {
        "primary_accuracy": mean("primary_correct"),
        "exec_accuracy": mean("exec_correct"),
        "valid_exec_rate": mean("valid_exec"),
        "final_accuracy": mean("final_correct"),
        "no_final_rate": 1 - mean("has_final"),
        "exact_program_rate": mean("exact_program"),
    }
    if "new_tokens" in details:
        rates["mean_new_tokens"] = mean("new_tokens")
    for family in FAMILIES:  # empty in a cell without the family
        rates[f"{family}_accuracy"] = details.loc[details["family"] == family, "primary_correct"].groupby(cell).mean()
    return rates


def _failures(details: pd.DataFrame, cell: pd.Series, absent: float | None) -> dict[str, pd.Series]:
    rates = {f"failure_{name}": _share(details["failure_type"], name, cell) for name in FAILURES}
    return rates if absent == 0 else {name: rate.where(rate > 0, absent) for name, rate in rates.items()}


def _ours(details: pd.DataFrame, cell: pd.Series) -> dict[str, pd.Series]:
    if "end" not in details:
        return {}
    return {
        "truncated_rate": _share(details["end"], "limit", cell),
        "several_finals_rate": details["several_finals"].groupby(cell).mean(),
        # cell by cell: pandas' own mean of groups sums otherwise, and so its last digit is another one
        "prefix_accuracy": details["prefix_accuracy"].astype(float).groupby(cell).agg(lambda values: values.mean()),
        **{f"{length}_rate": _share(details["length"], length, cell) for length in LENGTHS},
    }


def _share(column: pd.Series, value: str, cell: pd.Series) -> pd.Series:
    return (column == value).groupby(cell).mean()
