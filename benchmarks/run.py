"""`python -m benchmarks.run`: measure, write outputs/bench/<date>.json, put the table into README.md.

Each part runs in a process of its own, so that none finds another's memory or threads. Stopped, the same command goes on
after the last repetition that was finished; a record and the table are written from all that there is. Parts that are
not asked for keep the figures of the last record, if it is of the same machine, and the table says from when they are.
"""

from __future__ import annotations

import argparse
import sys
from concurrent.futures import ProcessPoolExecutor
from datetime import date
from importlib import import_module
from multiprocessing import get_context
from pathlib import Path

from depthstress.files import write_json
from depthstress.provenance import PACKAGES, git_commit, hardware, versions
from depthstress.suites import ROOT

from .results import FOLDER, PARTS, Results, compose, latest
from .table import rewrite, table

PEERS = ("trl", "lm_eval", "accelerate", "datasets", "numpy")
REPETITIONS = 5


def main(arguments: list[str] | None = None) -> int:
    """The command; returns its exit code."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.run", description=__doc__.partition("\n")[0])
    parser.add_argument("--only", default=",".join(PARTS), help=f"parts, with commas between (default: all; {', '.join(PARTS)})")
    parser.add_argument("--quick", action="store_true", help="one repetition of little work, to see that it runs; no table")
    parser.add_argument("--repetitions", type=int, default=REPETITIONS, help=f"of each part (default: {REPETITIONS})")
    parser.add_argument("--python", type=Path, default=Path(sys.executable), help="the interpreter that runs the study (default: this one)")
    options = parser.parse_args(arguments)
    parts = options.only.split(",")
    if unknown := [part for part in parts if part not in PARTS]:
        parser.error(f"--only: there is no part {', '.join(unknown)}; there are {', '.join(PARTS)}")
    repetitions = 1 if options.quick else options.repetitions
    if repetitions < 1:
        parser.error("--repetitions: at least 1")
    partial = FOLDER / ("quick.partial.json" if options.quick else "partial.json")
    about = {"commit": git_commit(), "machine": hardware(), "versions": versions(PACKAGES + PEERS)}
    for part in parts:
        print(f"{part}:", flush=True)
        with ProcessPoolExecutor(1, mp_context=get_context("spawn")) as process:
            process.submit(measure, part, Results(partial, about, repetitions), options.python, options.quick).result()
    record = compose(about, date.today().isoformat(), Results(partial, about, repetitions).samples, None if options.quick else latest())
    write_json(FOLDER / ("quick.json" if options.quick else f"{record['date']}.json"), record)
    print(table(record))
    if not options.quick:
        rewrite(ROOT / "README.md", record)
    return 0


def measure(part: str, results: Results, python: Path, quick: bool) -> None:
    """One part: what is not measured yet, added to the partial file."""
    if part == "local":  # alone without torch: what it measures must not start with its caller's memory
        import_module(".local", __package__).measure(results, python, quick)
    elif part == "around":
        import_module(".throughput", __package__).measure(results, quick)
    else:
        from .material import Material

        module = {"limits": ".limits", "train": ".training", "eval": ".evaluation"}[part]
        import_module(module, __package__).measure(results, Material.prepare(), quick)


if __name__ == "__main__":
    sys.exit(main())
