"""From prompts to texts: greedy, the adapter on the base that it was trained on.

An engine turns prompts into texts (`engines`); `evaluate` runs an adapter's whole evaluation through one, keeps the
texts as they come, and goes on where it was stopped.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator
from contextlib import nullcontext
from itertools import islice
from pathlib import Path
from typing import TypeVar

from .analysis import FINISHED, PARTIAL, read_rows
from .engines import Request, Text
from .engines.hf import HfEngine
from .engines.merge import merged
from .files import json_line, write_jsonl
from .formats import prompt_sha256
from .inputs import Prompt, generation_inputs, prompts
from .models import Base, trained_adapter
from .progress import Progress
from .runs import Run

GROUP = 8  # rows that reach the disk together: what a kill may lose
T = TypeVar("T")


def evaluate_adapters(run: Run, base: Base, limit: int | None = None) -> None:
    """Generate everything that is not there yet, with one progress line for all."""
    inputs = {(arm, seed): generation_inputs(run, arm, seed) for arm, seed in run.adapters}  # before any work
    counts = {key: len(prompts(run, *key, limit)) for key in run.adapters}
    missing = [key for key in run.adapters if not run.generations(*key).is_done(inputs[key])]
    total = sum(counts.values())
    with Progress("evaluation", total, "generations", total - sum(counts[key] for key in missing)) as progress:
        for arm, seed in missing:
            evaluate(run, base, arm, seed, inputs[arm, seed], limit, progress)


def evaluate(run: Run, base: Base, arm: str, seed: int, inputs: dict, limit: int | None, progress: Progress) -> None:
    """Generate one adapter's evaluation into its unit; with a limit the unit stays unfinished."""
    unit, settings = run.generations(arm, seed), run.suite.evaluation
    wanted = prompts(run, arm, seed, limit)
    with unit.make(inputs) as work:
        if not work:
            progress.add(len(wanted))
            return
        partial = unit.folder / PARTIAL
        done = {row["example_id"] for row in read_rows(unit.folder)}
        left = [prompt for prompt in wanted if prompt.example_id not in done]
        progress.add(len(wanted) - len(left), f"{arm}, seed {seed}")
        with trained_adapter(base, run.adapter(arm, seed).folder) as adapter, ready(adapter, base) as model:
            engine = HfEngine(base, model, settings.batch_size)
            texts = engine.generate([Request(prompt.text, settings.max_new_tokens) for prompt in left])
            for group in groups(texts, GROUP):
                _append(partial, [_row(arm, seed, left[index], text) for index, text in group])
                progress.add(len(group), f"{arm}, seed {seed}")
        rows = {row["example_id"]: row for row in read_rows(unit.folder)}
        everything = prompts(run, arm, seed)
        work.whole = all(prompt.example_id in rows for prompt in everything)
        if work.whole:
            write_jsonl(unit.folder / FINISHED, (rows[prompt.example_id] for prompt in everything))
            partial.unlink(missing_ok=True)


def ready(adapter, base: Base):
    """The adapter's model as it is fastest: merged on a CPU; as it is on CUDA, where the base stays in 4 bits."""
    return merged(adapter) if base.device.type == "cpu" else nullcontext(adapter)


def groups(items: Iterable[T], size: int) -> Iterator[list[T]]:
    """Lists of `size` items, the last one shorter, each as soon as its items are there."""
    items = iter(items)
    while group := list(islice(items, size)):
        yield group


def _row(arm: str, seed: int, prompt: Prompt, text: Text) -> dict:
    return {
        "example_id": prompt.example_id, "arm": arm, "seed": seed, "split": prompt.split,
        "prompt_sha256": prompt_sha256(prompt.text), "text": text.text, "end": text.end, "new_tokens": text.tokens,
    }  # fmt: skip


def _append(path: Path, rows: list[dict]) -> None:
    """Add rows, beginning a new line after a torn one, and flush it to disk."""
    with path.open("a+b") as file:
        if file.tell() and not _ends_with_newline(file):
            file.write(b"\n")
        file.write("".join(map(json_line, rows)).encode())
        file.flush()
        os.fsync(file.fileno())


def _ends_with_newline(file) -> bool:
    file.seek(-1, os.SEEK_END)
    return file.read(1) == b"\n"
