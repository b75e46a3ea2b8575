"""The analysis stage: a run's generations become the CSVs of `analysis/`, and are read back as tables."""

from __future__ import annotations

import csv
import json
from collections.abc import Callable, Iterable, Iterator
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

import pandas as pd

from .composition import costs_table, paired_table, survival_table, taught_table
from .files import fingerprint, read_jsonl, replacing, sources_sha256, write_json
from .formats import prompt_sha256
from .inputs import TRAIN, WEIGHTS, adapter_inputs, generation_inputs, prompt_of
from .runs import Run
from .tables import coverage, detail, metrics, summary
from .tasks import Example
from .units import MissingInput

FINISHED, PARTIAL = "generations.jsonl", ".partial.jsonl"
PART = "part.json"  # which arms and seeds were analysed
TEXTS = [
    "suite", "run", "arm", "split", "family", "wording", "example_id", "answer", "target", "generated", "end", "prompt_sha256",
    "failure", "title", "format", "writer", "training", "decoding", "factor", "first", "second", "contrast", "estimated", "folder",
    "failure_type", "exec_value", "exec_error", "final_value", "length", "adapter", "sha256",
]  # fmt: skip
Texts = dict[tuple[str, int], list[dict]]  # generations by arm and seed
Units = Iterable[tuple[tuple[str, int], list[dict]]]  # the same, one after the other


@dataclass(frozen=True)
class Tables:
    """The analysis of a run; each table is also a CSV of that name."""

    details: pd.DataFrame
    metrics: pd.DataFrame
    summary: pd.DataFrame
    coverage: pd.DataFrame
    comparisons: pd.DataFrame
    taught: pd.DataFrame
    survival: pd.DataFrame
    costs: pd.DataFrame
    training_log: pd.DataFrame
    checkpoints: pd.DataFrame
    completeness: pd.DataFrame


def analyse(run: Run) -> Tables:
    """Score every generation that there is and write the CSVs.

    Raises MissingInput where there is none, or where one was made with other settings than there are now.
    """
    hashes: dict[str, str] = {}
    tables = make_tables(run, score_texts(run, _hashed(_each_unit(run), hashes)))
    write_tables(run, tables)
    write_json(run.analysis.folder / PART, {"arms": run.arms, "seeds": run.seeds})
    run.analysis.mark(_analysis_inputs(run, hashes))
    return tables


def make_tables(run: Run, details: pd.DataFrame) -> Tables:
    """Every table that follows from the details, and what is known of the adapters."""
    by_cell = metrics(details)
    log, adapters = training_tables(run)
    return Tables(
        details=details,
        metrics=by_cell,
        summary=summary(by_cell),
        coverage=coverage(details),
        comparisons=paired_table(details, run.suite.builds_on),
        taught=taught_table(details, run.suite.builds_on),
        survival=survival_table(details),
        costs=costs_table(details),
        training_log=log,
        checkpoints=adapters,
        completeness=_completeness(run, details),
    )


def write_tables(run: Run, tables: Tables) -> None:
    """Each table as a CSV in `analysis/`, quoted, since a lone carriage return in a text would else begin a new row."""
    for name, table in vars(tables).items():
        with replacing(run.analysis.folder / f"{name}.csv") as file:
            table.to_csv(file, index=False, lineterminator="\n", quoting=csv.QUOTE_NONNUMERIC, encoding="utf-8", errors="replace")


def load_tables(run: Run) -> Tables:
    """The tables as 04_analysis wrote them. Raises MissingInput where it has not run on what there is now."""
    try:
        part = json.loads((run.analysis.folder / PART).read_text(encoding="utf-8"))
        analysed = Run(run.suite, run.model, part["arms"], part["seeds"], run.folder.parent)
        problem = run.analysis.problem(_analysis_inputs(analysed, dict(map(_hash, _each_unit(analysed)))))
    except (OSError, ValueError, KeyError, TypeError):
        problem = "missing"
    if problem:
        raise MissingInput(f"{run.shown(run.analysis.folder)}: {problem}. Make it with:\n    {run.papermill('04_analysis')}")
    return read_tables(run)


def read_tables(run: Run) -> Tables:
    """The tables of `analysis/`, unchecked: `load_tables` checks that they are those of the run."""
    return Tables(**{name: _read(run.analysis.folder / f"{name}.csv") for name in Tables.__dataclass_fields__})


def _read(path: Path) -> pd.DataFrame:
    """A table; an answer may read "NA", "007" or nothing at all, and so texts stay texts, and only numbers may be missing."""
    table = pd.read_csv(path, dtype={column: str for column in TEXTS}, keep_default_na=False, na_values=[], low_memory=False)
    for column in table.columns.difference(TEXTS):
        with suppress(ValueError):  # coverage has a depth "all"
            table[column] = pd.to_numeric(table[column])
    return table


def _analysis_inputs(run: Run, hashes: dict[str, str]) -> dict:
    return {
        "suite": run.suite.model_dump(), "model": run.model.model_dump(), "arms": run.arms, "seeds": run.seeds, "code": sources_sha256("."),
        "texts": hashes,
    }  # fmt: skip


def _hashed(units: Units, hashes: dict[str, str]) -> Iterator[tuple[tuple[str, int], list[dict]]]:
    """The same units, passed on; their hashes are noted on the way."""
    for unit in units:
        hashes.update([_hash(unit)])
        yield unit


def _hash(unit: tuple[tuple[str, int], list[dict]]) -> tuple[str, str]:
    (arm, seed), rows = unit
    return f"{arm}-s{seed}", fingerprint(rows)


def checked_texts(run: Run) -> Texts:
    """Every generation that there is, by arm and seed: whole units, and what is there of unfinished ones.

    Raises MissingInput for a unit that was made with other settings, is damaged, or has no marker.
    """
    return dict(_each_unit(run))


def _each_unit(run: Run) -> Iterator[tuple[tuple[str, int], list[dict]]]:
    """`checked_texts`, with no more than one unit in memory."""
    for arm, seed in run.evaluations:
        unit = run.generations(arm, seed)
        if not any((unit.folder / name).exists() for name in (FINISHED, PARTIAL)):
            continue
        inputs = generation_inputs(run, arm, seed)
        if (problem := unit.problem(inputs)) and not unit.begun(inputs):
            raise MissingInput(f"{run.shown(unit.folder)}: {problem}. Generate again with:\n    {run.papermill('03_eval')}")
        yield (arm, seed), read_rows(unit.folder)


def score_run(run: Run) -> pd.DataFrame:
    """The details: every generation that there is, scored. Raises as `analyse` does."""
    return score_texts(run, checked_texts(run))


def score_texts(run: Run, texts: Texts | Units, examples: Callable[[str, int], list[Example]] | None = None) -> pd.DataFrame:
    """Generations as details, one row each, split by split. `examples(split, seed)` defaults to the run's. Of
    units that come one after the other only one is held.

    Raises MissingInput without a generation, ValueError where one belongs to another prompt than the example's.
    """
    examples = examples or run.examples
    parts = []
    for (name, seed), generations in texts.items() if isinstance(texts, dict) else texts:
        rows, arm = [], run.arm(name)
        by_id = {row["example_id"]: row for row in generations}
        trained = {op for example in examples(run.suite.train_split(arm.training), seed) for op in example.operations}
        worked = examples(TRAIN, seed)[: arm.shots]
        for split in run.suite.splits:
            for example in examples(split.name, seed):
                if (generation := by_id.get(example.id)) is not None:
                    if generation["prompt_sha256"] != prompt_sha256(prompt_of(arm, example, worked)):
                        raise ValueError(
                            f"{name}, seed {seed}: the generation of {example.id} was made from another prompt than the data's"
                        )
                    rows.append(detail({"suite": run.suite.name, "run": run.name}, arm, example, generation, trained))
        # a part without a number would else hold None, and not a missing number
        parts += [pd.DataFrame(rows).astype({"first_divergence": float, "prefix_accuracy": float})] if rows else []
    if not parts:
        raise MissingInput(f"{run.shown(run.folder)} has no generations. Make them with:\n    {run.papermill('03_eval')}")
    return pd.concat(parts, ignore_index=True)


def read_rows(folder: Path) -> list[dict]:
    """An adapter's generations: the finished file, or the whole lines of an unfinished one; [] where there are none."""
    if (folder / FINISHED).exists():
        return read_jsonl(folder / FINISHED)
    return read_lines(folder / PARTIAL)


def read_lines(path: Path) -> list[dict]:
    """The whole rows of a JSONL file that is being written; [] where there is none."""
    rows = []
    if path.exists():
        for line in path.read_text(encoding="utf-8", errors="replace").splitlines():
            try:
                rows.append(json.loads(line))
            except ValueError:  # torn: the process was killed while it wrote
                continue
    return rows


def training_tables(run: Run) -> tuple[pd.DataFrame, pd.DataFrame]:
    """The loss of every update, and a row for every adapter, of those that are done."""
    titles = ["title", "format", "training"]
    log = pd.DataFrame(columns=["adapter", "seed", "step", "loss", "target_tokens", "lr", *titles])
    adapters = []
    for adapter, seed in run.adapters:
        unit, arm = run.adapter(adapter, seed), run.trained_as(adapter)
        if unit.folder.is_dir() and not unit.problem(adapter_inputs(run, adapter, seed), may_lack=[WEIGHTS]):
            own = pd.read_csv(unit.folder / "training_log.csv").assign(title=arm.taught, format=arm.format, training=arm.training)
            log = pd.concat([log, own], ignore_index=True) if len(log) else own
            adapters.append({"adapter": adapter, "title": arm.taught, "seed": seed, "folder": unit.name, "updates": len(own), "last_loss": own["loss"].iloc[-1],
                             "sha256": unit.marked()[WEIGHTS]})  # fmt: skip
    return log, pd.DataFrame(adapters, columns=["adapter", "title", "seed", "folder", "updates", "last_loss", "sha256"])


def _completeness(run: Run, details: pd.DataFrame) -> pd.DataFrame:
    """Generations against what the whole suite asks for, also where this run is a part of it."""
    expected = len(run.suite.splits) * run.suite.evaluation.per_split
    counts = details.groupby(["arm", "seed"]).size()
    whole = [(arm, seed) for arm in run.suite.arm_names for seed in run.suite.seeds]
    return pd.DataFrame(
        [{"arm": arm, "seed": seed, "generations": int(counts.get((arm, seed), 0)), "expected": expected} for arm, seed in whole]
    )
