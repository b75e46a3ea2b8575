"""What both sides of a comparison are given: suite local's model, rows, prompts and adapter of one arm.

The peers get the model as plain fp32 weights, which suits them best on a CPU: the values that the project's own
4-bit weights stand for, so that losses and texts can be compared to the digit.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

import torch

from depthstress.data import make_data
from depthstress.files import write_text
from depthstress.inputs import adapter_inputs, prompts, training_rows
from depthstress.models import Base, load_base
from depthstress.progress import Progress
from depthstress.runs import Run
from depthstress.suites import load_suite
from depthstress.training import Row, encode, order, train_adapter

from .results import FOLDER

ARM = "program_stack"
WORK = FOLDER / "work"  # data, adapter, dense weights: made again where missing


@dataclass(frozen=True)
class Material:
    """Suite local in the benchmark's own folder."""

    run: Run

    @classmethod
    def prepare(cls) -> Material:
        """Make the data where they are missing; the rest is made when it is asked for."""
        run = Run("local", outputs=WORK)
        for seed in run.seeds:
            make_data(run, seed)
        return cls(run)

    @property
    def seed(self) -> int:
        return self.run.seeds[0]

    def base(self) -> Base:
        """The base model as the study loads it."""
        return load_base(self.run.model)

    @cached_property
    def dense(self) -> Path:
        """A folder with the base model's weights as plain fp32, and its tokenizer."""
        folder = WORK / f"dense-{self.run.model.name}"
        if not (folder / "made").exists():
            base = self.base()
            model = base.model.dequantize() if getattr(base.model, "is_quantized", False) else base.model
            model.to(torch.float32).save_pretrained(folder)
            base.tokenizer.save_pretrained(folder)
            write_text(folder / "made", "")
        return folder

    def batches(self, base: Base, updates: int) -> list[list[Row]]:
        """The rows of each of the first updates, in the order in which the study trains on them."""
        settings = self.run.suite.train
        size = settings.batch_size * settings.grad_accum
        rows = encode(base, training_rows(self.run, self.run.arm(ARM), self.seed), settings.max_length)
        indices = order(len(rows), updates * size, self.seed)
        return [[rows[i] for i in indices[first : first + size]] for first in range(0, len(indices), size)]

    def prompts(self, limit: int | None = None) -> list[str]:
        """The prompts of the published evaluation grid, split by split; at most `limit` a split."""
        published = {split.name for split in load_suite("main").splits}
        return [prompt.text for prompt in prompts(self.run, ARM, self.seed, limit) if prompt.split in published]

    @cached_property
    def adapter(self) -> Path:
        """The folder of the arm's adapter: the study's where it is there and whole, else trained here, once."""
        kept = Run("local").adapter(ARM, self.seed)
        if kept.is_done(adapter_inputs(self.run, ARM, self.seed)):
            return kept.folder
        with Progress("training the adapter to evaluate", self.run.suite.train.updates, "updates") as progress:
            train_adapter(self.run, self.base(), ARM, self.seed, progress)
        return self.run.adapter(ARM, self.seed).folder
