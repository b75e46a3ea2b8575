"""Training: this project's update beside TRL's SFTTrainer, and beside the machine's rate of matrix products.

Both train the same fresh adapter (the same seed, so the same first weights) on the same batches in the same order with
the same optimizer, in fp32; the loss of every update has to agree, or nothing is reported. TRL gets what suits it best
here: tokens instead of texts, plain fp32 weights, no gradient checkpointing, no bf16 (its defaults are for GPUs), the
fused AdamW, no evaluation, no saving. Timed is the loop over the updates alone.

Without Triton, TRL's loss goes over every position instead of those with a label. That is what its users get on a CPU, so
it is the comparison; a second one lets it leave the others out, as it does on a GPU (one function of TRL replaced).
"""

from __future__ import annotations

import tempfile
import time
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass
from unittest.mock import patch

import torch
from torch.profiler import ProfilerActivity, profile

from depthstress.models import Base, laid_out, new_adapter
from depthstress.suites import Lora, Training
from depthstress.training import MAX_NORM, Row, new_optimizer, update

from . import limits
from .arithmetic import tokens_and_pairs, update_flops
from .material import Material
from .profile import shares
from .results import Results

UPDATES = 12  # a side and repetition
AGREEMENT = 1e-3  # the greatest difference of an update's loss


@dataclass(frozen=True)
class Timed:
    """Seconds of the loop, and the loss of every update."""

    seconds: float
    losses: list[float]


def measure(results: Results, material: Material, quick: bool) -> None:
    """A repetition: the machine's rate, every side over the same updates in turn, the rate again."""
    run, base = material.run, material.base()
    settings = run.suite.train
    batches = material.batches(base, 2 if quick else UPDATES)
    flops = sum(update_flops(base.model.config, rows, settings.lora.r, settings.lora.target_modules) for rows in batches)
    tokens, _ = tokens_and_pairs(batches[0])
    laid_out_for = sum(run.suite.training(run.trained_as(adapter).training).updates for adapter, _ in run.adapters)  # by one layout
    sides = {
        "ours": lambda rows: ours(base, settings, rows, material.seed),
        "trl": lambda rows: trl(material, rows),
        "trl_labelled": lambda rows: trl(material, rows, labelled_only=True),
    }
    for side in sides.values():
        side(batches[:1])  # what is allocated once is allocated
    for repetition in results.missing("train"):
        rates = limits.product_rates(base.model.config, tokens)
        timed = {side: sides[side](batches) for side in sorted(sides, reverse=repetition % 2 == 1)}
        rates = {kind: max(rate, rates[kind]) for kind, rate in limits.product_rates(base.model.config, tokens).items()}
        difference = max(abs(a - b) for side in timed.values() for a, b in zip(timed["ours"].losses, side.losses, strict=True))
        if difference > AGREEMENT:
            raise RuntimeError(f"TRL's losses differ from ours by up to {difference:.2g}; that is other work, and no time is reported")
        profiled = profile(activities=[ProfilerActivity.CPU])
        results.add("train", {
            "updates": len(batches), "seconds": timed["ours"].seconds, "trl_seconds": timed["trl"].seconds,
            "trl_labelled_seconds": timed["trl_labelled"].seconds, "loss_difference": difference,
            "flops": flops, **rates, "layout_seconds": layout_seconds(base, settings.lora), "updates_a_layout": laid_out_for,
            "shares": shares(profiled, ours(base, settings, batches[: len(batches) // 2], material.seed, profiled).seconds),
        })  # fmt: skip


def layout_seconds(base: Base, lora: Lora) -> float:
    """Seconds that a run's training spends on laying the frozen weights out, once for all its adapters, and back."""
    started = time.perf_counter()
    with laid_out(base, lora):
        pass
    return time.perf_counter() - started


def ours(base: Base, settings: Training, batches: list[list[Row]], seed: int, watching: AbstractContextManager | None = None) -> Timed:
    """The project's own updates, with something watching the loop, if asked."""
    with new_adapter(base, settings.lora, seed) as model:
        optimizer = new_optimizer([weight for weight in model.parameters() if weight.requires_grad], settings.lr)
        model.train()
        with watching or nullcontext():
            started = time.perf_counter()
            losses = [update(base, model, optimizer, rows, settings.batch_size)[0] for rows in batches]
            return Timed(time.perf_counter() - started, losses)


def trl(material: Material, batches: list[list[Row]], labelled_only: bool = False) -> Timed:
    """The same updates by TRL, from `on_train_begin` to `on_train_end`; its loss over labelled positions only, if asked."""
    from datasets import Dataset
    from peft import LoraConfig
    from transformers import AutoModelForCausalLM, AutoTokenizer, PrinterCallback, TrainerCallback
    from trl import SFTConfig, SFTTrainer

    times = []

    class Clock(TrainerCallback):
        def on_train_begin(self, *arguments, **named):
            times.append(time.perf_counter())

        on_train_end = on_train_begin

    settings, cuda = material.run.suite.train, torch.cuda.is_available()
    examples = [{"input_ids": row.prompt + row.target, "labels": [-100] * len(row.prompt) + row.target} for rows in batches for row in rows]
    with tempfile.TemporaryDirectory() as folder:
        trainer = SFTTrainer(
            model=AutoModelForCausalLM.from_pretrained(material.dense, dtype=torch.float32),
            processing_class=AutoTokenizer.from_pretrained(material.dense),
            train_dataset=Dataset.from_list(examples),
            peft_config=LoraConfig(
                r=settings.lora.r, lora_alpha=settings.lora.alpha, lora_dropout=settings.lora.dropout,
                target_modules=settings.lora.target_modules, task_type="CAUSAL_LM",
            ),
            args=SFTConfig(
                output_dir=folder, seed=material.seed, max_steps=len(batches), train_sampling_strategy="sequential",
                per_device_train_batch_size=settings.batch_size, gradient_accumulation_steps=settings.grad_accum,
                learning_rate=settings.lr, lr_scheduler_type="constant", weight_decay=0.0, max_grad_norm=MAX_NORM,
                optim="adamw_torch_fused", bf16=False, gradient_checkpointing=False, use_cpu=not cuda,
                dataset_kwargs={"skip_prepare_dataset": True}, logging_steps=1, disable_tqdm=True, report_to="none", save_strategy="no",
            ),
            callbacks=[Clock()],
        )  # fmt: skip
        trainer.remove_callback(PrinterCallback)
        with patch("trl.trainer.utils._use_triton", lambda device: True) if labelled_only else nullcontext():
            trainer.train()
        return Timed(times[1] - times[0], [entry["loss"] for entry in trainer.state.log_history if "loss" in entry])
