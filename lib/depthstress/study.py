"""`python -m depthstress.study`: run the numbered notebooks of a suite, one line of progress a stage.

What is done is not done again. The notebooks are the same that papermill or JupyterLab runs; their executed
copies lie in `outputs/<run>/notebooks/`.
"""

from __future__ import annotations

import argparse
import os
import re
import sys
import tempfile
import threading
import time
from pathlib import Path

from .progress import PROGRESS_FILE, duration
from .runs import Run
from .stages import NOTEBOOKS, STAGES, read_manifest, stage_inputs, stage_is_done

UNITS = {"01_data": "examples", "02_train": "updates", "03_eval": "generations", "04_analysis": "generations", "05_report": "generations"}
QUIET = ["--IPKernelApp.log_level=40"]  # else every kernel warns that it talks over local TCP
ANSI = re.compile(r"\x1b\[[0-9;]*m")


def main(arguments: list[str] | None = None) -> int:
    """The command; returns its exit code."""
    parser = argparse.ArgumentParser(prog="python -m depthstress.study", description=__doc__)
    parser.add_argument("suite", nargs="?", default="local", help="a file of params/suites (default: local)")
    parser.add_argument("--model", help="a file of params/models (default: the suite's own)")
    options = parser.parse_args(arguments)
    try:
        run = Run(options.suite, options.model)
    except ValueError as error:
        print(error, file=sys.stderr)
        return 2
    if run.model.needs_cuda and (problem := _no_cuda(run)):
        print(problem, file=sys.stderr)
        return 2
    print(f"suite {run.suite.name}, model {run.model.title}: {len(run.adapters)} adapters, {len(run.suite.splits)} splits")
    started = time.monotonic()
    for stage in STAGES:
        if not run_stage(run, stage):
            return 1
    print(f"done after {duration(time.monotonic() - started)}. The report: {os.path.relpath(run.folder / 'report.html')}")
    return 0


def run_stage(run: Run, stage: str) -> bool:
    """Run one notebook unless its stage is done; returns whether it is done now."""
    if stage_is_done(run, stage):
        print(f"{stage:<12} done already", flush=True)
        return True
    from papermill import execute_notebook
    from papermill.exceptions import PapermillExecutionError

    output = run.folder / "notebooks" / f"{stage}.ipynb"
    output.parent.mkdir(parents=True, exist_ok=True)
    parameters = {"suite": run.suite.name} | ({} if run.model.name == run.suite.model else {"model": run.model.name})
    started, inputs = time.monotonic(), stage_inputs(run, stage)
    with tempfile.TemporaryDirectory() as folder, _Watch(stage, Path(folder) / "progress"):
        try:
            # relative, as the executed copy keeps both paths
            execute_notebook(
                os.path.relpath(NOTEBOOKS / f"{stage}.ipynb"),
                os.path.relpath(output),
                parameters,
                progress_bar=False,
                extra_arguments=QUIET,
            )
            problem = "" if stage_is_done(run, stage, inputs) else "the notebook ended before its stage was done"
        except KeyboardInterrupt:
            problem = "stopped"
        except PapermillExecutionError as error:
            problem = f"{error.ename}: {ANSI.sub('', str(error.evalue))}"
        except Exception as error:  # a dead kernel, a time-out: whatever papermill raises, say it in a line
            problem = f"{type(error).__name__}: {error}"
    if problem:
        print(f"{stage:<12} not done after {duration(time.monotonic() - started)}: {problem}", flush=True)
        print(f"The notebook as far as it came: {os.path.relpath(output)}. What was done is kept; the same command goes on from there.")
        return False
    rows = read_manifest(run)["stages"][stage]["rows"]
    print(f"{stage:<12} done after {duration(time.monotonic() - started)}, {rows} {UNITS[stage]}", flush=True)
    return True


def _no_cuda(run: Run) -> str | None:
    from .models import NeedsCuda, check_hardware

    try:
        check_hardware(run.model)
    except NeedsCuda as error:
        return str(error)
    return None


class _Watch:
    """Shows the notebook's progress line while it runs: rewritten in place on a terminal, else every 30 s."""

    def __init__(self, stage: str, path: Path) -> None:
        self.stage, self.path = stage, path
        self.over = threading.Event()
        self.thread = threading.Thread(target=self._show, daemon=True)
        self.terminal = sys.stdout.isatty()

    def __enter__(self) -> None:
        os.environ[PROGRESS_FILE] = str(self.path)  # the kernel inherits it
        self.thread.start()

    def __exit__(self, *error: object) -> None:
        self.over.set()
        self.thread.join()
        os.environ.pop(PROGRESS_FILE, None)
        if self.terminal:
            print("\r\x1b[K", end="", flush=True)

    def _show(self) -> None:
        shown = ""
        while not self.over.wait(1 if self.terminal else 30):
            line = self.path.read_text(encoding="utf-8") if self.path.exists() else "starting"
            if self.terminal:
                width = os.get_terminal_size().columns
                print(f"\r\x1b[K{f'{self.stage:<12} {line}'[: width - 1]}", end="", flush=True)
            elif line != shown:
                print(f"{self.stage:<12} {line}", flush=True)
                shown = line


if __name__ == "__main__":
    sys.exit(main())
