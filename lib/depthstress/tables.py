"""From generations to tables: details (a row a generation), metrics (arm, seed, split), summary (arm, split).

Metrics and summary have the published run's columns first, ours behind. Pure: rows in, data frames out.
"""

from __future__ import annotations

import pandas as pd

from .formats import ARMS
from .intervals import rate
from .scoring import score
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
CELL = ["suite", "run", "arm", "seed", "trained", "split", "depth", "template_shift"]


def detail(run: dict, example: Example, generation: dict, trained_opcodes: set[str]) -> dict:
    """One generation, scored, with all that a reader needs to check it. `run` holds suite and run name."""
    arm = ARMS[generation["arm"]]
    scored = score(arm.reads_program, generation["text"], example.answer, example.program)
    return {
        **run,
        "arm": arm.name,
        "seed": example.seed,
        "trained": 1,
        "split": example.split,
        "depth": example.depth,
        "template_shift": int(example.wording != "standard"),
        "family": example.family,
        "example_id": example.id,
        "coverage": int(trained_opcodes.issuperset(example.operations)),
        "answer": example.answer,
        "target": arm.target(example),
        "generated": generation["text"],
        "end": generation["end"],
        "new_tokens": generation["new_tokens"],
        "prompt_sha256": generation["prompt_sha256"],
        **{name: int(value) if isinstance(value, bool) else value for name, value in vars(scored).items()},
    }


def metrics(details: pd.DataFrame, absent_failure: float | None = 0.0) -> pd.DataFrame:
    """One row an arm, seed and split.

    absent_failure: the rate of a failure type that a cell does not have. The published tables leave it
    empty (None), so that their means cover only the seeds that had it; ours say 0.
    """
    rows = []
    for key, cell in details.groupby(CELL, sort=False):
        rows.append({**dict(zip(CELL, key)), "n": len(cell), **_rates(cell), **_failures(cell, absent_failure), **_ours(cell)})
    return pd.DataFrame(rows)


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
    """Executed accuracy of the program arms, split by whether the training data contained every opcode of the
    gold program: one row a wording, depth and coverage, then one over all reworded depths."""
    programs = details[details["arm"].map(lambda arm: ARMS[arm].reads_program)]
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


def _rates(cell: pd.DataFrame) -> dict:
    row = {
        "primary_accuracy": cell["primary_correct"].mean(),
        "exec_accuracy": cell["exec_correct"].mean(),
        "valid_exec_rate": cell["valid_exec"].mean(),
        "final_accuracy": cell["final_correct"].mean(),
        "no_final_rate": 1 - cell["has_final"].mean(),
        "exact_program_rate": cell["exact_program"].mean(),
    }
    if "new_tokens" in cell:
        row["mean_new_tokens"] = cell["new_tokens"].mean()
    for family in FAMILIES:
        part = cell[cell["family"] == family]
        row[f"{family}_accuracy"] = part["primary_correct"].mean() if len(part) else None
    return row


def _failures(cell: pd.DataFrame, absent: float | None) -> dict:
    counts = cell["failure_type"].value_counts()
    return {f"failure_{name}": counts[name] / len(cell) if name in counts else absent for name in FAILURES}


def _ours(cell: pd.DataFrame) -> dict:
    if "end" not in cell:
        return {}
    return {
        "truncated_rate": (cell["end"] == "limit").mean(),
        "several_finals_rate": cell["several_finals"].mean(),
        "prefix_accuracy": cell["prefix_accuracy"].astype(float).mean(),
        **{f"{length}_rate": (cell["length"] == length).mean() for length in LENGTHS},
    }
