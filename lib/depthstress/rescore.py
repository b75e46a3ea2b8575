"""`python -m depthstress.rescore DIR`: score a published run's generations again and compare, row by row.

Nothing is taken from a row but the arm, the gold answer, the gold target and the generated text.
"""

from __future__ import annotations

import argparse
import sys
from pathlib import Path

import pandas as pd

from .formats import FORMATS
from .plain import statistics_text
from .scoring import score
from .tables import metrics, summary
from .tasks import trainable

SCORES = ("exec_correct", "final_correct", "valid_exec", "exact_program", "has_final", "failure_type")
INPUTS = frozenset({"PUSH_TEXT", "PUSH", "PUSH_DATE", "PUSH_LIST", "TABLE"})


def read_published(folder: Path, name: str) -> pd.DataFrame:
    """A CSV of the published run as text: its answers may be empty, `NA` or `007`. Raises SystemExit where it is missing."""
    path = folder / name
    if not path.is_file():
        raise SystemExit(f"{path} is missing; DIR must hold details.csv and summary_by_arm.csv of a published run")
    return pd.read_csv(path, dtype=str, keep_default_na=False)


def rescored(details: pd.DataFrame, lenient: bool) -> pd.DataFrame:
    """The details with our scores in place of the published ones."""
    scores = [
        score(FORMATS[row.arm].reads_program, row.generated, row.answer, row.target, lenient) for row in details.itertuples(index=False)
    ]
    ours = pd.DataFrame([vars(s) for s in scores], index=details.index)
    ours = ours.astype({column: int for column in ours if ours[column].dtype == bool})
    kept = details.drop(columns=[column for column in details if column in ours])
    covered = trainable("published") | INPUTS
    kept = kept.assign(
        seed=details["seed"].astype(int),
        depth=details["depth"].astype(int),
        template_shift=details["split"].str.contains("template").astype(int),
        format=details["arm"],  # a published arm is named after its format, and differs in nothing else
        coverage=[int(covered.issuperset(operations.split())) for operations in details["gold_ops"]],
    )
    return pd.concat([kept, ours], axis=1)


def differing(published: pd.DataFrame, ours: pd.DataFrame) -> pd.Series:
    """Which rows differ from the published scores in any of `SCORES`."""
    return (published[list(SCORES)] != ours[list(SCORES)].astype(str)).any(axis=1)


def compare_summary(published: pd.DataFrame, ours: pd.DataFrame) -> pd.DataFrame:
    """One row an arm and split: how many of the published figures that follow from the generations are the
    same to the printed digit. (Token counts do not follow: the published texts are stripped.)"""
    keys = ["arm", "split"]
    theirs, mine = published.set_index(keys), ours.set_index(keys)
    columns = [c for c in published if c in ours and c not in keys and not c.startswith("mean_new_tokens")]
    rows = []
    for key in theirs.index:
        same = [_same(theirs.at[key, column], mine.at[key, column]) for column in columns]
        rows.append({"arm": key[0], "split": key[1], "figures": len(columns), "equal": sum(same),
                     "differs": ", ".join(c for c, equal in zip(columns, same) if not equal)})  # fmt: skip
    return pd.DataFrame(rows)


def _same(printed: str, value: object) -> bool:
    if pd.isna(value):
        return printed == ""
    if isinstance(value, str):
        return printed == value
    # Sums of floats differ in the last bits with their order; 12 digits are far below what a page prints.
    return printed != "" and f"{float(printed):.12f}" == f"{float(value):.12f}"


def main(arguments: list[str] | None = None) -> int:
    """The command; returns its exit code: 0 only if every row and every summary row agrees."""
    parser = argparse.ArgumentParser(prog="python -m depthstress.rescore", description=__doc__)
    parser.add_argument("folder", type=Path, metavar="DIR", help="a folder with details.csv and summary_by_arm.csv")
    folder = parser.parse_args(arguments).folder
    published = read_published(folder, "details.csv")
    lenient, strict = rescored(published, lenient=True), rescored(published, lenient=False)
    rows_differ, strict_differ = differing(published, lenient), differing(published, strict)
    theirs = read_published(folder, "summary_by_arm.csv")
    theirs = theirs[theirs["suite"] == published["suite"].iloc[0]]
    compared = compare_summary(theirs, summary(metrics(lenient, absent_failure=None)))
    agree = (compared["equal"] == compared["figures"]).sum()

    print(_published_table(lenient), end="\n\n")
    print(f"lenient reader: {len(published) - rows_differ.sum():,} of {len(published):,} rows identical in {', '.join(SCORES)}")
    for row in lenient[rows_differ].itertuples(index=False):
        print(f"  differs: {row.arm}, seed {row.seed}, {row.example_id}: {row.generated!r}")
    print(f"summary: {agree} of {len(compared)} rows equal to the printed digit ({compared['figures'].sum():,} figures)")
    for row in compared[compared["equal"] < compared["figures"]].itertuples(index=False):
        print(f"  differs: {row.arm}, {row.split}: {row.differs}")
    print(f"strict reader: {strict_differ.sum()} program(s) scored otherwise")
    for row in strict[strict_differ].itertuples(index=False):
        print(f"  {row.arm}, seed {row.seed}, {row.example_id}: {row.generated!r}: {row.exec_error}")
    print(f"\nStatistics (lenient reader; an opcode counts as trained where a task of depth 1 can have it)\n\n{statistics_text(lenient)}")
    return 0 if not rows_differ.any() and agree == len(compared) else 1


def _published_table(details: pd.DataFrame) -> str:
    table = details.groupby(["arm", "split"], sort=False)[["primary_correct", "exec_correct", "valid_exec", "final_correct"]]
    shown = table.mean().map("{:.1%}".format)
    return shown.assign(n=table.size()).reset_index().to_string(index=False)


if __name__ == "__main__":
    sys.exit(main())
