"""The stages of a run: what each needs, that it is done, and the run's manifest and log.

A notebook is a stage. Its marker (a hidden file, written last) holds what the stage was made from and the
hash of every file that it made; each stage's inputs contain the marker of the one before.
"""

from __future__ import annotations

import datetime as dt
import json
import time
from pathlib import Path

from filelock import FileLock

from .files import file_sha256, fingerprint, made, sources_sha256, write_json, write_text
from .inputs import WEIGHTS
from .progress import duration
from .provenance import git_commit, hardware, versions
from .runs import Run
from .suites import ROOT
from .units import DONE

STAGES = {
    "01_data": ("data",),
    "02_train": ("adapters",),
    "03_eval": ("generations",),
    "04_analysis": ("analysis", "figures"),
    "05_report": ("report.html",),
}
NOTEBOOKS = ROOT / "notebooks"
LOG_COLUMNS = ("finished (UTC)", "stage", "arms", "seeds", "took", "rows")
LOG_HEAD = f"# Runs\n\n| {' | '.join(LOG_COLUMNS)} |\n{'|---' * len(LOG_COLUMNS)}|\n"


def stage_inputs(run: Run, stage: str) -> str:
    """A hash of all that a stage's outputs depend on."""
    names = list(STAGES)
    previous = names[names.index(stage) - 1] if stage != names[0] else None
    before = _marker(run, previous) if previous else None
    return fingerprint(
        {
            "suite": run.suite.model_dump(),
            "model": run.model.model_dump(),
            "arms": run.arms,
            "seeds": run.seeds,
            "code": sources_sha256("."),
            "notebook": file_sha256(NOTEBOOKS / f"{stage}.ipynb"),
            "before": before.read_text(encoding="utf-8") if before and before.is_file() else None,
        }
    )


def stage_is_done(run: Run, stage: str, inputs: str | None = None) -> bool:
    """Whether a stage ended, from these inputs (default: those there are now), and all its files are as it left them."""
    try:
        marker = json.loads(_marker(run, stage).read_text(encoding="utf-8"))
        return marker["inputs"] == (inputs or stage_inputs(run, stage)) and all(
            file_sha256(run.folder / name) == digest for name, digest in marker["files"].items()
        )
    except (OSError, ValueError, KeyError, TypeError, AttributeError):
        return False


class Stage:
    """A stage being worked on; `finish` marks it done, and updates the manifest and the log."""

    def __init__(self, run: Run, name: str, whole: bool = True) -> None:
        self.run, self.name, self.whole = run, name, whole
        self.started = time.monotonic()
        self.inputs = stage_inputs(run, name)

    def finish(self, rows: int) -> dict[str, object]:
        """Record the end of the stage, with the number of rows that it made or checked (examples, updates,
        generations, ...); returns what was recorded. A stage that was limited to a part is not marked done."""
        run, seconds = self.run, round(time.monotonic() - self.started, 1)
        record = {
            "finished": dt.datetime.now(dt.UTC).strftime("%Y-%m-%d %H:%M:%S"),
            "seconds": seconds, "arms": run.arms, "seeds": run.seeds, "rows": rows, "whole": self.whole,
            "commit": git_commit(), "versions": versions(), "hardware": hardware(),
        }  # fmt: skip
        with FileLock(made(run.folder / ".locks") / "manifest.lock"):
            files = {str(path.relative_to(run.folder)): file_sha256(path) for path in stage_files(run, self.name)}
            _update_manifest(run, self.name, record, (_weights(run) if self.name == "02_train" else {}) | files)
            _append_log(run, self.name, record)
        if self.whole:
            write_json(_marker(run, self.name), {"inputs": self.inputs, "files": files})
        return record


def stage_files(run: Run, stage: str) -> list[Path]:
    """The files that a stage made, without markers and what is unfinished."""
    found: list[Path] = []
    for name in STAGES[stage]:
        path = run.folder / name
        found += [path] if path.is_file() else path.rglob("*")
    return sorted(p for p in found if p.is_file() and p.name != DONE and not p.name.startswith("."))


def _weights(run: Run) -> dict[str, str]:
    """The hashes of the adapters' weights, also of those that are gone (a clone has none, and needs none for what was generated)."""
    units = [run.adapter(*adapter) for adapter in run.adapters]
    return {f"{unit.name}/{WEIGHTS}": unit.marked()[WEIGHTS] for unit in units if (unit.folder / DONE).is_file()}


def read_manifest(run: Run) -> dict:
    """The run's manifest; {} where there is none yet or it can't be read (the next stage writes it anew)."""
    try:
        manifest = json.loads((run.folder / "manifest.json").read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return {}
    return manifest if isinstance(manifest, dict) else {}


def _marker(run: Run, stage: str) -> Path:
    return run.folder / f".{stage}.done.json"


def _update_manifest(run: Run, stage: str, record: dict, files: dict[str, str]) -> None:
    """Each stage says itself where it ran: training on one machine and analysis on another is the usual case."""
    manifest = read_manifest(run)
    kept = {name: digest for name, digest in manifest.get("files", {}).items() if not name.startswith(STAGES[stage])}
    manifest |= {
        "run": run.name,
        "suite": run.suite.model_dump(),
        "model": run.model.model_dump(),
        "code_sha256": sources_sha256("."),
        "stages": manifest.get("stages", {}) | {stage: record},
        "files": dict(sorted((kept | files).items())),
    }
    write_json(run.folder / "manifest.json", manifest)


def read_log(run: Run) -> list[dict[str, str]]:
    """The running log, one row for every time that a stage ran; [] where there is none."""
    path = run.folder / "log.md"
    lines = path.read_text(encoding="utf-8").splitlines() if path.is_file() else []
    cells = ([cell.strip() for cell in line.strip("|").split("|")] for line in lines if line.startswith("| 2"))
    return [dict(zip(LOG_COLUMNS, row)) for row in cells]


def _append_log(run: Run, stage: str, record: dict) -> None:
    path = run.folder / "log.md"
    text = path.read_text(encoding="utf-8") if path.is_file() else LOG_HEAD
    cells = (record["finished"], stage, ", ".join(run.arms), ", ".join(map(str, run.seeds)), duration(record["seconds"]), record["rows"])
    write_text(path, text + f"| {' | '.join(map(str, cells))} |\n")
