"""The analysis stage: a run's generations become the CSVs of `analysis/`, and are read back as tables."""

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path

import pandas as pd

from .data import TRAIN
from .formats import ARMS, prompt_sha256
from .runs import MissingInput, Run, file_sha256, read_jsonl, write_text
from .tables import coverage, detail, metrics, summary

FINISHED, PARTIAL = "generations.jsonl", ".partial.jsonl"
TEXT_COLUMNS = ["answer", "target", "generated", "exec_value", "exec_error", "final_value", "length", "example_id", "prompt_sha256"]


@dataclass(frozen=True)
class Tables:
    """The analysis of a run; each table is also a CSV of that name."""

    details: pd.DataFrame
    metrics: pd.DataFrame
    summary: pd.DataFrame
    coverage: pd.DataFrame
    training_log: pd.DataFrame
    checkpoints: pd.DataFrame
    completeness: pd.DataFrame


def analyse(run: Run) -> Tables:
    """Score every generation that there is and write the CSVs.

    Raises MissingInput where there is none, ValueError where a generation belongs to another prompt than the data's.
    """
    details = score_run(run)
    by_cell = metrics(details)
    log, adapters = training_tables(run)
    tables = Tables(
        details=details,
        metrics=by_cell,
        summary=summary(by_cell),
        coverage=coverage(details),
        training_log=log,
        checkpoints=adapters,
        completeness=_completeness(run, details),
    )
    for name, table in vars(tables).items():
        write_text(run.folder / "analysis" / f"{name}.csv", table.to_csv(index=False, lineterminator="\n"))
    return tables


def load_tables(run: Run) -> Tables:
    """The tables as 04_analysis wrote them. Raises MissingInput where it has not run."""
    return Tables(**{name: _read(run, name) for name in Tables.__dataclass_fields__})


def _read(run: Run, name: str) -> pd.DataFrame:
    path = run.folder / "analysis" / f"{name}.csv"
    if not path.is_file():
        raise MissingInput(f"{run.shown(path)} is missing. Make it with:\n    {run.papermill('04_analysis')}")
    if name != "details":
        return pd.read_csv(path)
    # An answer may read "NA", "007" or nothing at all: texts stay texts, and only numbers may be missing.
    table = pd.read_csv(path, dtype={column: str for column in TEXT_COLUMNS}, keep_default_na=False)
    return table.assign(**{c: pd.to_numeric(table[c]) for c in ("first_divergence", "prefix_accuracy")})


def score_run(run: Run) -> pd.DataFrame:
    """The details: every generation that there is, scored. Raises as `analyse` does."""
    rows = []
    for arm, seed in run.adapters:
        generations = {row["example_id"]: row for row in read_rows(run.generations(arm, seed).folder)}
        if not generations:
            continue
        trained = {op for example in run.examples(TRAIN, seed) for op in example.operations}
        for split in run.suite.splits:
            for example in run.examples(split.name, seed):
                if (generation := generations.get(example.id)) is not None:
                    if generation["prompt_sha256"] != prompt_sha256(ARMS[arm].prompt(example)):
                        raise ValueError(
                            f"{arm}, seed {seed}: the generation of {example.id} was made from another prompt than the data's now. "
                            f"Generate again with:\n    {run.papermill('03_eval')}"
                        )
                    rows.append(detail({"suite": run.suite.name, "run": run.name}, example, generation, trained))
    if not rows:
        raise MissingInput(f"{run.shown(run.folder)} has no generations. Make them with:\n    {run.papermill('03_eval')}")
    return pd.DataFrame(rows)


def read_rows(folder: Path) -> list[dict]:
    """An adapter's generations: the finished file, or the whole lines of an unfinished one; [] where there are none."""
    if (folder / FINISHED).exists():
        return read_jsonl(folder / FINISHED)
    rows = []
    if (folder / PARTIAL).exists():
        for line in (folder / PARTIAL).read_text(encoding="utf-8", errors="replace").splitlines():
            try:
                rows.append(json.loads(line))
            except ValueError:  # torn: the process was killed while it wrote
                continue
    return rows


def training_tables(run: Run) -> tuple[pd.DataFrame, pd.DataFrame]:
    """The loss of every update, and a row for every adapter that is done."""
    return _training_log(run), _checkpoints(run)


def _training_log(run: Run) -> pd.DataFrame:
    logs = [pd.read_csv(path) for key in run.adapters if (path := run.adapter(*key).folder / "training_log.csv").is_file()]
    columns = ["arm", "seed", "step", "loss", "target_tokens", "lr"]
    return pd.concat(logs, ignore_index=True) if logs else pd.DataFrame(columns=columns)


def _checkpoints(run: Run) -> pd.DataFrame:
    rows = []
    for arm, seed in run.adapters:
        unit = run.adapter(arm, seed)
        weights, log = unit.folder / "adapter_model.safetensors", unit.folder / "training_log.csv"
        if weights.is_file() and log.is_file():
            last = pd.read_csv(log).iloc[-1]
            rows.append({"arm": arm, "seed": seed, "adapter": unit.name, "updates": int(last["step"]), "last_loss": last["loss"],
                         "bytes": weights.stat().st_size, "sha256": file_sha256(weights)})  # fmt: skip
    return pd.DataFrame(rows, columns=["arm", "seed", "adapter", "updates", "last_loss", "bytes", "sha256"])


def _completeness(run: Run, details: pd.DataFrame) -> pd.DataFrame:
    expected = len(run.suite.splits) * run.suite.evaluation.per_split
    counts = details.groupby(["arm", "seed"]).size()
    return pd.DataFrame(
        [{"arm": arm, "seed": seed, "generations": int(counts.get((arm, seed), 0)), "expected": expected} for arm, seed in run.adapters]
    )
