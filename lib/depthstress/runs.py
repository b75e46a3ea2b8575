"""A run on disk: where things lie under `outputs/`, written atomically, with a marker last.

Work is done in units (the data of a seed, an adapter, an adapter's generations, a stage). A unit is a folder;
it is whole when its `done.json` is there, was made from the same inputs, and every file still has the hash
recorded in it. Anything else is never read as a result: a unit made from other inputs, or damaged, is moved
to `stale/` and made again.
"""

from __future__ import annotations

import csv
import hashlib
import io
import json
import os
import tempfile
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from pathlib import Path

from filelock import FileLock, Timeout

from .suites import ROOT, Model, Suite, load_model, load_suite
from .tasks.base import Example

OUTPUTS = Path(os.environ.get("DEPTHSTRESS_OUTPUTS", ROOT / "outputs"))
DONE = "done.json"


class MissingInput(RuntimeError):
    """Something that an earlier stage makes is not there; the message says which command makes it."""


@dataclass
class Work:
    """Whether a unit has to be made (its truth value), and whether it is whole afterwards: its maker sets
    `whole` to False to leave it unfinished, to be continued."""

    needed: bool
    whole: bool = True

    def __bool__(self) -> bool:
        return self.needed


class Unit:
    """One folder that is either whole or not there (see the module)."""

    def __init__(self, run: Run, name: str) -> None:
        self.run, self.name, self.folder = run, name, run.folder / name

    def is_done(self, inputs: object) -> bool:
        """Whether the unit is whole and was made from these inputs."""
        return self.problem(inputs) is None

    def problem(self, inputs: object) -> str | None:
        """None when the unit is whole; else why it is not."""
        try:
            marker = json.loads((self.folder / DONE).read_text(encoding="utf-8"))
            made_from, files = marker["inputs"], marker["files"]
        except FileNotFoundError:
            return "it is not marked as done" if self.folder.is_dir() and self.files() else "missing"
        except (ValueError, KeyError, TypeError):
            return f"its {DONE} is damaged"
        if made_from != fingerprint(inputs):
            return "it was made with other settings or from other inputs"
        for name, digest in files.items():
            path = self.folder / name
            if not path.is_file():
                return f"{name} is missing"
            if file_sha256(path) != digest:
                return f"{name} was changed"
        return None

    @contextmanager
    def make(self, inputs: object) -> Iterator[Work]:
        """Make the unit unless it is whole: `with unit.make(inputs) as work: if work: ...`.

        Holds the unit's lock, so that a second process waits and then finds it done. What was left
        unfinished from the same inputs stays in the folder; anything else there is set aside first.
        """
        self.folder.mkdir(parents=True, exist_ok=True)
        with self._lock():
            problem = self.problem(inputs)
            if problem is not None:
                self._set_aside(problem, fingerprint(inputs))
            work = Work(needed=problem is not None)
            yield work
            if work and work.whole:
                self._finish(inputs)

    @contextmanager
    def _lock(self) -> Iterator[None]:
        lock = FileLock(self.run.folder / ".locks" / f"{self.name.replace('/', '-')}.lock")
        try:
            lock.acquire(timeout=0)
        except Timeout:
            print(f"{self.name}: another process works on it; waiting for it to end", flush=True)
            lock.acquire()
        try:
            yield
        finally:
            lock.release()

    def files(self) -> list[Path]:
        """The unit's files, without its marker and what is unfinished."""
        return sorted(p for p in self.folder.rglob("*") if p.is_file() and p.name != DONE and not p.name.startswith("."))

    def digest(self) -> str:
        """One hash over all files of the unit."""
        return fingerprint({str(p.relative_to(self.folder)): file_sha256(p) for p in self.files()})

    def _finish(self, inputs: object) -> None:
        (self.folder / ".inputs").unlink(missing_ok=True)
        files = {str(path.relative_to(self.folder)): file_sha256(path) for path in self.files()}
        write_json(self.folder / DONE, {"inputs": fingerprint(inputs), "files": files})

    def _set_aside(self, problem: str, inputs: str) -> None:
        """Move away everything but what was begun from the same inputs."""
        begun = self.folder / ".inputs"
        if begun.exists() and begun.read_text(encoding="utf-8") == inputs:
            return
        if any(path.name != ".inputs" for path in self.folder.iterdir()):
            number = len(list((self.run.folder / "stale").glob("*"))) + 1
            aside = self.run.folder / "stale" / f"{self.name.replace('/', '-')}-{number}"
            aside.parent.mkdir(exist_ok=True)
            self.folder.rename(aside)
            self.folder.mkdir(parents=True)
            print(f"{self.name}: {problem}; set aside in stale/{aside.name} and made again", flush=True)
        write_text(begun, inputs)


class Run:
    """One suite on one model, in `outputs/<suite>` (or `outputs/<suite>-<model>` for another model than the
    suite's own). `arms` and `seeds` may be a part of the suite's: a shard of the same run."""

    def __init__(
        self,
        suite: str | Suite,
        model: str | Model | None = None,
        arms: list[str] | None = None,
        seeds: list[int] | None = None,
        outputs: Path | None = None,
    ) -> None:
        self.suite = load_suite(suite) if isinstance(suite, str) else suite
        self.model = model if isinstance(model, Model) else load_model(model or self.suite.model)
        self.arms = _part("arms", arms, self.suite.arms, self.suite.name)
        self.seeds = _part("seeds", seeds, self.suite.seeds, self.suite.name)
        self.name = run_name(self.suite.name, self.model.name, self.suite.model)
        self.folder = (outputs or OUTPUTS) / self.name

    def data(self, seed: int) -> Unit:
        return Unit(self, f"data/s{seed}")

    def adapter(self, arm: str, seed: int) -> Unit:
        return Unit(self, f"adapters/{arm}-s{seed}")

    def generations(self, arm: str, seed: int) -> Unit:
        return Unit(self, f"generations/{arm}-s{seed}")

    @property
    def adapters(self) -> list[tuple[str, int]]:
        """Every adapter of this run or shard as (arm, seed)."""
        return [(arm, seed) for arm in self.arms for seed in self.seeds]

    @property
    def command(self) -> str:
        """What a papermill command line says to mean this run."""
        own = self.model.name == self.suite.model
        return f"-p suite {self.suite.name}" + ("" if own else f" -p model {self.model.name}")

    def examples(self, split: str, seed: int) -> list[Example]:
        """The examples of a split. Raises MissingInput where 01_data has not made them."""
        path = self.data(seed).folder / f"{split}.jsonl"
        if not (path.parent / DONE).exists():
            raise MissingInput(f"no data for seed {seed} in {self.shown(path.parent)}. Make it with:\n    {self.papermill('01_data')}")
        return [Example(**{**row, "steps": tuple(row["steps"]), "states": tuple(row["states"])}) for row in read_jsonl(path)]

    def papermill(self, notebook: str) -> str:
        """The command that runs a notebook for this run."""
        return f"cd notebooks && papermill {notebook}.ipynb {self.command}"

    def shown(self, path: Path) -> str:
        """A path as messages and saved notebooks show it: relative to the outputs folder's parent."""
        return str(path.relative_to(self.folder.parent.parent))


def run_name(suite: str, model: str | None, suites_own: str | None = None) -> str:
    """The folder of a run under `outputs/`."""
    return suite if model in (None, suites_own) else f"{suite}-{model}"


def _part(field: str, asked: list | None, whole: list, suite: str) -> list:
    if asked is None:
        return list(whole)
    if unknown := [value for value in asked if value not in whole]:
        raise ValueError(f"{field}: suite {suite} has no {unknown}; it has {whole}")
    if not asked:
        raise ValueError(f"{field} is empty; leave it out for all of suite {suite}: {whole}")
    return [value for value in whole if value in asked]


def fingerprint(content: object) -> str:
    """A hash of anything that JSON can hold."""
    text = json.dumps(content, sort_keys=True, ensure_ascii=True, default=str)
    return hashlib.sha256(text.encode()).hexdigest()


def file_sha256(path: Path) -> str:
    """The hash of a file's bytes."""
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def write_bytes(path: Path, content: bytes) -> None:
    """Write a file whole or not at all: to a temporary name beside it, flushed to disk, then renamed."""
    path.parent.mkdir(parents=True, exist_ok=True)
    handle, temporary = tempfile.mkstemp(dir=path.parent, prefix=f".{path.name}.")
    try:
        with os.fdopen(handle, "wb") as file:
            file.write(content)
            file.flush()
            os.fsync(file.fileno())
        os.chmod(temporary, 0o644)
        os.replace(temporary, path)
    except BaseException:
        Path(temporary).unlink(missing_ok=True)
        raise


def write_text(path: Path, text: str) -> None:
    """`write_bytes` for text; lone surrogates, which no UTF-8 file can hold, are written as `?`."""
    write_bytes(path, text.encode("utf-8", errors="replace"))


def write_json(path: Path, content: object) -> None:
    """JSON, indented, in a fixed key order."""
    write_text(path, json.dumps(content, indent=1, sort_keys=True, default=str) + "\n")


def write_jsonl(path: Path, rows: Iterable[dict]) -> None:
    """One JSON object a line; ASCII, so that any text survives."""
    write_text(path, "".join(json_line(row) for row in rows))


def json_line(row: dict) -> str:
    """A row as one line of a JSONL file."""
    return json.dumps(row, ensure_ascii=True) + "\n"


def read_jsonl(path: Path) -> list[dict]:
    """The rows of a JSONL file."""
    return [json.loads(line) for line in path.read_text(encoding="utf-8").splitlines() if line]


def write_csv(path: Path, rows: list[dict]) -> None:
    """A CSV with the first row's keys as its header; None is an empty field. Raises ValueError without rows."""
    if not rows:
        raise ValueError(f"{path.name}: no rows to write")
    buffer = io.StringIO()
    writer = csv.DictWriter(buffer, fieldnames=list(rows[0]), lineterminator="\n")
    writer.writeheader()
    writer.writerows(rows)
    write_text(path, buffer.getvalue())


def example_row(example: Example) -> dict:
    """An example as a row of its split's JSONL file."""
    return asdict(example)
