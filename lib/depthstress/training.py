"""From examples to an adapter: LoRA on a frozen base, loss on the target alone, the end token learned.

Every update draws its randomness from (seed, update), so that a run continued from a checkpoint gives the
same bytes as one that was never stopped.
"""

from __future__ import annotations

import json
import random
from collections.abc import Iterable, Iterator
from contextlib import contextmanager, nullcontext
from dataclasses import dataclass
from itertools import groupby
from pathlib import Path

import torch
from safetensors import safe_open
from safetensors.torch import save

from .files import fingerprint, write_bytes, write_csv, write_json
from .gated import fused_gates
from .inputs import adapter_inputs, adapter_needed, training_rows
from .loss import summed_cross_entropy
from .memory import trim_heap
from .models import ADAPTER_NAME, Base, laid_out, new_adapter, save_adapter
from .norm import fused_norms
from .packing import pack, packed_attention
from .progress import Progress
from .runs import Run
from .suites import Training

CHECKPOINT = ".checkpoint.safetensors"
IGNORED = -100
MAX_NORM = 1.0  # of the gradient, clipped


@dataclass(frozen=True)
class Row:
    """One training row: the prompt's tokens, and the target's with the end token."""

    prompt: list[int]
    target: list[int]
    going_on: tuple[bool, ...] = ()  # for each target token, whether a line ended before it and another follows: too early to end

    def __len__(self) -> int:
        return len(self.prompt) + len(self.target)


def train_adapters(run: Run, base: Base) -> None:
    """Train every adapter that the run still needs, with one progress line for all."""
    settings = {key: run.suite.training(run.trained_as(key[0]).training) for key in run.adapters}
    missing = [key for key in run.adapters if adapter_needed(run, *key)]
    total = sum(each.updates for each in settings.values())
    with Progress("training", total, "updates", total - sum(settings[key].updates for key in missing)) as progress:
        for lora, keys in groupby(missing, lambda key: settings[key].lora):
            with laid_out(base, lora):
                for adapter, seed in keys:
                    train_adapter(run, base, adapter, seed, progress)
                    trim_heap()


def train_adapter(run: Run, base: Base, adapter: str, seed: int, progress: Progress) -> None:
    """Train one adapter into its unit, from its last checkpoint where there is one."""
    unit, arm = run.adapter(adapter, seed), run.trained_as(adapter)
    settings, inputs = run.suite.training(arm.training), adapter_inputs(run, adapter, seed)
    with unit.make(inputs) as work:
        if not work:
            progress.add(settings.updates)
            return
        rows = encode(base, training_rows(run, arm, seed), settings.max_length)
        with new_adapter(base, settings.lora, seed) as model, checkpointing(base, rows, settings.batch_size):
            log = _train(base, model, rows, settings, seed, unit.folder / CHECKPOINT, progress, f"{adapter}, seed {seed}")
            save_adapter(model, unit.folder, run.model)
        write_csv(unit.folder / "training_log.csv", [{"adapter": adapter, "seed": seed, **row} for row in log])
        write_json(unit.folder / "provenance.json", inputs | {"suite": run.suite.name, "training_rows": len(rows)})
    (unit.folder / CHECKPOINT).unlink(missing_ok=True)  # only now that the adapter is marked as done


def encode(base: Base, texts: list[tuple[str, str, str]], max_length: int) -> list[Row]:
    """Rows of tokens from (example id, prompt, target). Raises ValueError that names the example where one is longer
    than `max_length`."""
    rows = []
    for name, prompt, target in texts:
        tokens = base.tokens(target)
        ended = [base.tokenizer.decode([token]).endswith("\n") for token in tokens]
        row = Row(base.tokens(prompt), [*tokens, base.eos], (False, *ended[:-1], False))
        if len(row) > max_length:
            raise ValueError(f"a training row of {name} has {len(row)} tokens; max_length is {max_length}")
        rows.append(row)
    return rows


def collate(rows: list[Row], pad: int, device: torch.device) -> dict[str, torch.Tensor]:
    """A right-padded batch: `input_ids` and `attention_mask` (rows x length), `labels` of the same shape with
    each position's next token, `IGNORED` in the prompt and the padding. The end token keeps its label even
    where it is also the padding."""
    shape = (len(rows), max(map(len, rows)))
    batch = {
        "input_ids": torch.full(shape, pad),
        "attention_mask": torch.zeros(shape, dtype=torch.long),
        "labels": torch.full(shape, IGNORED),
    }
    for n, row in enumerate(rows):
        batch["input_ids"][n, : len(row)] = torch.tensor(row.prompt + row.target)
        batch["attention_mask"][n, : len(row)] = 1
        batch["labels"][n, len(row.prompt) - 1 : len(row) - 1] = torch.tensor(row.target)
    return {name: tensor.to(device) for name, tensor in batch.items()}


def plain_loss(model, rows: list[Row], base: Base, premature_end: float = 0.0) -> torch.Tensor:
    """The summed cross entropy of the rows' target tokens, from a padded batch: needed where rows must not share
    states, as dropout draws anew for each."""
    causal, batch = model.get_base_model(), collate(rows, base.eos, base.device)
    hidden = causal.model(input_ids=batch["input_ids"], attention_mask=batch["attention_mask"], use_cache=False).last_hidden_state
    labelled, punished = batch["labels"] != IGNORED, _punished(rows, base, premature_end)
    return summed_cross_entropy(hidden[labelled], causal.lm_head, batch["labels"][labelled], base.eos, punished, base.project)


def packed_loss(model, rows: list[Row], base: Base, premature_end: float = 0.0) -> torch.Tensor:
    """The same from the rows' prefix tree: no padding, and what rows begin with alike is computed once."""
    causal, packed = model.get_base_model(), pack([(row.prompt, row.target) for row in rows]).to(base.device)
    hidden = causal.model(input_ids=packed.tokens, position_ids=packed.positions, use_cache=False, packed=packed).last_hidden_state
    hidden = hidden[0].index_select(0, packed.labelled)
    return summed_cross_entropy(hidden, causal.lm_head, packed.labels, base.eos, _punished(rows, base, premature_end), base.project)


def _punished(rows: list[Row], base: Base, premature_end: float) -> torch.Tensor | None:
    """The weight of the end token's unlikelihood at every target token, row by row; None without any."""
    if not premature_end:
        return None
    return torch.tensor([float(place) for row in rows for place in row.going_on], device=base.device) * premature_end


def order(count: int, needed: int, seed: int) -> list[int]:
    """Indices of the rows in the order they are seen: whole passes, each shuffled anew."""
    indices: list[int] = []
    for epoch in range(-(-needed // count)):
        indices += random.Random(f"order/{seed}/{epoch}").sample(range(count), count)
    return indices[:needed]


def _train(
    base: Base, model, rows: list[Row], settings: Training, seed: int, checkpoint: Path, progress: Progress, title: str
) -> list[dict]:
    weights = {name: weight for name, weight in model.named_parameters() if weight.requires_grad}
    optimizer = new_optimizer(weights.values(), settings.lr)
    log = _resume(checkpoint, weights, optimizer)
    progress.add(len(log), f"{title}, continued" if log else title)
    per_update = settings.batch_size * settings.grad_accum
    indices = order(len(rows), settings.updates * per_update, seed)
    model.train()
    for done in range(len(log), settings.updates):
        torch.manual_seed(int(fingerprint([seed, done])[:15], 16))
        chosen = [rows[i] for i in indices[done * per_update : (done + 1) * per_update]]
        loss, tokens = update(base, model, optimizer, chosen, settings.batch_size, settings.premature_end)
        log.append({"step": done + 1, "loss": loss, "target_tokens": tokens, "lr": settings.lr})
        progress.add(1, f"{title}, loss {loss:.4f}")
        if (done + 1) % settings.checkpoint_every == 0 and done + 1 < settings.updates:
            _save_checkpoint(checkpoint, weights, optimizer, log)
    return log


def activation_bytes(config, tokens: int) -> int:
    """A generous estimate of what the backward pass keeps of `tokens` tokens: in every layer some 16 tensors as wide
    as the hidden state and 8 as wide as the MLP, in fp32 (LoRA's inputs are)."""
    return 4 * tokens * config.num_hidden_layers * (16 * config.hidden_size + 8 * config.intermediate_size)


@contextmanager
def checkpointing(base: Base, rows: list[Row], batch_size: int) -> Iterator[bool]:
    """Compute activations again in the backward pass (a third more work) where, on CUDA, those of the longest batch
    would take more than half of the free memory; says whether it does."""
    tokens = batch_size * max(map(len, rows))
    free = torch.cuda.mem_get_info()[0] if base.device.type == "cuda" else float("inf")
    needed = activation_bytes(base.model.config, tokens) > free / 2
    if needed:
        base.model.activation_checkpointing_enable()
    try:
        yield needed
    finally:
        if needed:
            base.model.activation_checkpointing_disable()


def new_optimizer(weights: Iterable[torch.nn.Parameter], lr: float) -> torch.optim.Optimizer:
    """AdamW without weight decay, at a constant rate; fused, since hundreds of small matrices are a loop otherwise."""
    return torch.optim.AdamW(weights, lr=lr, weight_decay=0.0, fused=True)


def update(base: Base, model, optimizer, rows: list[Row], batch_size: int, premature_end: float = 0.0) -> tuple[float, int]:
    """One optimizer step on the rows, `batch_size` at a time; returns the mean loss a target token, and the number
    of these tokens. premature_end: see `suites.Training`."""
    tokens = sum(len(row.target) for row in rows)
    dropout = model.peft_config[ADAPTER_NAME].lora_dropout
    total = 0.0
    causal = model.get_base_model()
    with nullcontext() if dropout else packed_attention(causal), fused_norms(causal), fused_gates(causal):
        for first in range(0, len(rows), batch_size):
            with torch.autocast(base.device.type, torch.bfloat16, enabled=base.settings.compute == "bfloat16"):
                loss = (plain_loss if dropout else packed_loss)(model, rows[first : first + batch_size], base, premature_end) / tokens
            loss.backward()
            total += loss.item()
    torch.nn.utils.clip_grad_norm_([weight for group in optimizer.param_groups for weight in group["params"]], MAX_NORM)
    optimizer.step()
    optimizer.zero_grad(set_to_none=True)
    return total, tokens


def _save_checkpoint(path: Path, weights: dict[str, torch.Tensor], optimizer, log: list[dict]) -> None:
    tensors = {}
    for name, weight in weights.items():
        state = optimizer.state[weight]
        tensors |= {f"{name}|weight": weight.detach(), f"{name}|mean": state["exp_avg"], f"{name}|square": state["exp_avg_sq"]}
    cpu = {name: tensor.cpu().contiguous() for name, tensor in tensors.items()}
    write_bytes(path, save(cpu, metadata={"log": json.dumps(log)}))


def _resume(path: Path, weights: dict[str, torch.Tensor], optimizer) -> list[dict]:
    """Put a checkpoint's weights and optimizer state back; returns the log so far, [] without a checkpoint."""
    if not path.exists():
        return []
    with safe_open(path, "pt") as saved:
        log = json.loads(saved.metadata()["log"])
        for name, weight in weights.items():
            with torch.no_grad():
                weight.copy_(saved.get_tensor(f"{name}|weight"))
            optimizer.state[weight] = {
                "step": torch.tensor(float(len(log)), device=weight.device),
                "exp_avg": saved.get_tensor(f"{name}|mean").to(weight.device),
                "exp_avg_sq": saved.get_tensor(f"{name}|square").to(weight.device),
            }
    return log
