"""One progress line for long work, with an estimate; readable on a terminal and in a saved notebook.

A widget would freeze in a saved notebook, and a line a step floods the kernel's message channel. So one
display is updated at most once a second; `make study` reads the same line from a small file.
"""

from __future__ import annotations

import os
import sys
import time
from pathlib import Path

from IPython.core.getipython import get_ipython
from IPython.display import display

PROGRESS_FILE = "DEPTHSTRESS_PROGRESS"


class Line:
    """What is displayed: plain text, so that it degrades to itself everywhere."""

    def __init__(self, text: str) -> None:
        self.text = text

    def __repr__(self) -> str:
        return self.text


class Progress:
    """`with Progress("training", total, "updates") as progress: ... progress.add(1, "loss 0.02")`.

    total: units of work in all; already: those done before, which the estimate leaves out.
    """

    def __init__(self, title: str, total: int, unit: str, already: int = 0) -> None:
        self.title, self.total, self.unit, self.done, self.already = title, total, unit, already, already
        self.started = time.monotonic()
        self.shown = 0.0
        self.note = ""
        self.handle = None

    def __enter__(self) -> Progress:
        self._show()
        return self

    def __exit__(self, kind, error, trace) -> None:
        self._show("stopped" if kind else "done")

    def add(self, units: int, note: str = "") -> None:
        """Count units of work that are done."""
        self.done += units
        self.note = note
        if time.monotonic() - self.shown >= 1:
            self._show()

    def line(self, state: str = "") -> str:
        """The line as it is shown now."""
        elapsed = time.monotonic() - self.started
        fresh = self.done - self.already
        if state:
            when = f"{state} after {duration(elapsed)}"
        elif fresh:
            when = f"{duration(elapsed * (self.total - self.done) / fresh)} left"
        else:
            when = "starting"
        parts = [f"{self.title}: {self.done} of {self.total} {self.unit}", when, self.note]
        return ", ".join(part for part in parts if part)

    def _show(self, state: str = "") -> None:
        self.shown = time.monotonic()
        text = self.line(state)
        if path := os.environ.get(PROGRESS_FILE):
            Path(path).write_text(text, encoding="utf-8")
        if get_ipython() is None:
            end = "\n" if state else "\r"
            if state or sys.stderr.isatty():
                print(f"\x1b[K{text}" if sys.stderr.isatty() else text, end=end, file=sys.stderr, flush=True)
        elif self.handle is None:
            self.handle = display(Line(text), display_id=True)
        else:
            self.handle.update(Line(text))


def duration(seconds: float) -> str:
    """`8 s`, `3 min 20 s`, `2 h 5 min`."""
    seconds = round(seconds)
    if seconds < 60:
        return f"{seconds} s"
    if seconds < 3600:
        return f"{seconds // 60} min {seconds % 60} s"
    return f"{seconds // 3600} h {seconds % 3600 // 60} min"
