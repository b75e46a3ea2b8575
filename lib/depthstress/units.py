"""Units of work on disk.

A unit (the data of a seed, an adapter, an adapter's generations, the analysis) is a folder. It is whole when its
`done.json` is there, was made from the same inputs, and every file still has the hash recorded in it. Anything
else is never read as a result: a unit made from other inputs, or damaged, is moved to `stale/` and made again.
"""

from __future__ import annotations

import itertools
import json
from collections.abc import Collection, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from filelock import FileLock, Timeout

from .files import file_sha256, fingerprint, write_json, write_text

if TYPE_CHECKING:
    from .runs import Run

DONE = "done.json"
BEGUN = ".inputs"  # what unfinished work in the folder was begun from


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

    def problem(self, inputs: object, may_lack: Collection[str] = ()) -> str | None:
        """None when the unit is whole, but for files that it may lack; else why it is not."""
        try:
            marker = json.loads((self.folder / DONE).read_text(encoding="utf-8"))
            made_from, files = marker["inputs"], dict(marker["files"])
        except FileNotFoundError:
            return "it is not marked as done" if self.folder.is_dir() and self.files() else "missing"
        except (ValueError, KeyError, TypeError):
            return f"its {DONE} is damaged"
        if made_from != fingerprint(inputs):
            return "it was made with other settings or from other inputs"
        for name, digest in files.items():
            path = self.folder / name
            if not path.is_file():
                if name in may_lack:
                    continue
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
        with self._lock():
            problem = self.problem(inputs)
            if problem is not None:
                self._set_aside(problem, inputs)
            work = Work(needed=problem is not None)
            yield work
            if work and work.whole:
                self.mark(inputs)

    @contextmanager
    def _lock(self) -> Iterator[None]:
        (self.run.folder / ".locks").mkdir(parents=True, exist_ok=True)
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

    def marked(self) -> dict[str, str]:
        """The files that the marker names, and their hashes. Raises OSError or ValueError without a marker."""
        return json.loads((self.folder / DONE).read_text(encoding="utf-8"))["files"]

    def begun(self, inputs: object) -> bool:
        """Whether the folder holds unfinished work from these inputs."""
        try:
            return (self.folder / BEGUN).read_text(encoding="utf-8") == fingerprint(inputs)
        except (OSError, UnicodeDecodeError):
            return False

    def mark(self, inputs: object) -> None:
        """Mark the unit as whole. The marker comes first and the sign of unfinished work goes last: a process
        killed in between leaves a unit that is done."""
        files = {str(path.relative_to(self.folder)): file_sha256(path) for path in self.files()}
        write_json(self.folder / DONE, {"inputs": fingerprint(inputs), "files": files})
        (self.folder / BEGUN).unlink(missing_ok=True)

    def _set_aside(self, problem: str, inputs: object) -> None:
        """Move away everything but what was begun from the same inputs."""
        self.folder.mkdir(parents=True, exist_ok=True)
        if self.begun(inputs):
            return
        for torn in self.folder.glob(f".{BEGUN}.*"):  # a kill while beginning; nothing else was made yet
            torn.unlink()
        if any(path.name != BEGUN for path in self.folder.iterdir()):
            stale = self.run.folder / "stale"
            names = (stale / f"{self.name.replace('/', '-')}-{number}" for number in itertools.count(1))
            aside = next(path for path in names if not path.exists())
            stale.mkdir(exist_ok=True)
            self.folder.rename(aside)
            self.folder.mkdir(parents=True, exist_ok=True)
            print(f"{self.name}: {problem}; set aside in stale/{aside.name} and made again", flush=True)
        write_text(self.folder / BEGUN, fingerprint(inputs))
