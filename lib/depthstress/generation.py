"""From prompts to texts: greedy, batched, the adapter on the base that it was trained on.

An engine turns prompts into texts; `evaluate` runs an adapter's whole evaluation through one, batch by
batch, and goes on where it was stopped.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

import torch

from .analysis import FINISHED, PARTIAL, read_rows
from .files import json_line, write_jsonl
from .formats import prompt_sha256
from .inputs import Prompt, generation_inputs, prompts
from .models import Base, trained_adapter
from .progress import Progress
from .runs import Run


@dataclass(frozen=True)
class Text:
    """What a model wrote, why it ended ("eos" or "limit"), and how many tokens it wrote before the end token."""

    text: str
    end: str
    tokens: int


class Engine(Protocol):
    """Anything that writes a text for each prompt, in the prompts' order."""

    def generate(self, prompts: list[str], max_new_tokens: int) -> list[Text]: ...


class HfEngine:
    """transformers' greedy generation on a model in memory."""

    def __init__(self, base: Base, model) -> None:
        self.base, self.model = base, model

    def generate(self, prompts: list[str], max_new_tokens: int) -> list[Text]:
        """One batch, padded on the left so that every prompt ends where its text begins."""
        encoded = [self.base.tokens(prompt) for prompt in prompts]
        width = max(map(len, encoded))
        ids = torch.tensor([[self.base.eos] * (width - len(row)) + row for row in encoded], device=self.base.device)
        mask = torch.tensor([[0] * (width - len(row)) + [1] * len(row) for row in encoded], device=self.base.device)
        with torch.inference_mode():
            output = self.model.generate(
                input_ids=ids, attention_mask=mask, max_new_tokens=max_new_tokens, do_sample=False,
                eos_token_id=list(self.base.stops), pad_token_id=self.base.eos,
            )  # fmt: skip
        return [self._text(row) for row in output[:, width:].tolist()]

    def _text(self, tokens: list[int]) -> Text:
        end = next((n for n, token in enumerate(tokens) if token in self.base.stops), None)
        kept = tokens[:end]
        text = self.base.tokenizer.decode(kept, skip_special_tokens=True, clean_up_tokenization_spaces=False)
        return Text(text, "limit" if end is None else "eos", len(kept))


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
        with trained_adapter(base, run.adapter(arm, seed).folder) as model:
            engine = HfEngine(base, model)
            for batch in batches(base, wanted, settings.batch_size):
                if not done.issuperset(prompt.example_id for prompt in batch):
                    texts = engine.generate([prompt.text for prompt in batch], settings.max_new_tokens)
                    _append(partial, [_row(arm, seed, *pair) for pair in zip(batch, texts) if pair[0].example_id not in done])
                progress.add(len(batch), f"{arm}, seed {seed}")
        rows = {row["example_id"]: row for row in read_rows(unit.folder)}
        everything = prompts(run, arm, seed)
        work.whole = all(prompt.example_id in rows for prompt in everything)
        if work.whole:
            write_jsonl(unit.folder / FINISHED, (rows[prompt.example_id] for prompt in everything))
            partial.unlink(missing_ok=True)


def batches(base: Base, wanted: list[Prompt], size: int) -> Iterator[list[Prompt]]:
    """Batches of prompts of similar length, the longest first (so that memory that does not suffice shows at once)."""
    longest_first = sorted(wanted, key=lambda prompt: -len(base.tokens(prompt.text)))
    for first in range(0, len(longest_first), size):
        yield longest_first[first : first + size]


def _row(arm: str, seed: int, prompt: Prompt, text: Text) -> dict:
    return {
        "example_id": prompt.example_id, "arm": arm, "seed": seed, "split": prompt.split,
        "prompt_sha256": prompt_sha256(prompt.text), "text": text.text, "end": text.end, "new_tokens": text.tokens,
    }  # fmt: skip


def _append(path: Path, rows: list[dict]) -> None:
    """Add a batch, beginning a new line after a torn one, and flush it to disk."""
    with path.open("a+b") as file:
        if file.tell() and not _ends_with_newline(file):
            file.write(b"\n")
        file.write("".join(map(json_line, rows)).encode())
        file.flush()
        os.fsync(file.fileno())


def _ends_with_newline(file) -> bool:
    file.seek(-1, os.SEEK_END)
    return file.read(1) == b"\n"
