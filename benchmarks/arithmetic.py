"""The arithmetic that an update of LoRA on a frozen base can't do without, counted from the model's config.

A multiplication with its addition counts as two operations. Counted are, a token that has to be computed:

- every frozen matrix, forward and back to the activations: 4 x non-embedding parameters
- the adapter's two matrices a layer, forward, back to the activations and to the weights: 6 x adapter parameters
- attention, whose two products a pair of tokens take twice as much going back: 12 x heads x head size a pair and layer
- the logits, forward and back, where there is a label: 4 x hidden size x vocabulary

What rows of an update begin with alike has to be computed once. The last token of a row is only ever predicted, so
nothing has to be computed from it. Padding, recomputation, dequantisation and the optimizer are not counted.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol


class Row(Protocol):
    """A training row: the tokens of a prompt and of its target."""

    prompt: list[int]
    target: list[int]


def shapes(config) -> dict[str, tuple[int, int]]:
    """The inputs and outputs of each matrix of a layer, of a Llama-like model's config."""
    hidden, inner = config.hidden_size, config.intermediate_size
    size = getattr(config, "head_dim", None) or hidden // config.num_attention_heads
    queries, keys = size * config.num_attention_heads, size * config.num_key_value_heads
    return {
        "q_proj": (hidden, queries), "k_proj": (hidden, keys), "v_proj": (hidden, keys), "o_proj": (queries, hidden),
        "gate_proj": (hidden, inner), "up_proj": (hidden, inner), "down_proj": (inner, hidden),
    }  # fmt: skip


def tokens_and_pairs(rows: Sequence[Row]) -> tuple[int, int]:
    """The tokens of an update that have to be computed, and the pairs of a token with one that it attends to: the
    nodes of the rows' prefix tree, and the sum of their depths."""
    ids = [tuple(row.prompt + row.target) for row in rows]
    nodes = {row[:length] for row in ids for length in range(1, len(row))}
    return len(nodes), sum(map(len, nodes))


def update_flops(config, rows: Sequence[Row], rank: int, adapted: Sequence[str]) -> int:
    """Operations that one update on these rows needs, with LoRA of this rank on the matrices `adapted` of every layer."""
    matrices = shapes(config)
    tokens, pairs = tokens_and_pairs(rows)
    labels = sum(len(row.target) for row in rows)
    frozen = 4 * sum(inputs * outputs for inputs, outputs in matrices.values())
    lora = 6 * rank * sum(sum(matrices[name]) for name in adapted)
    attention = 12 * matrices["q_proj"][1] * pairs
    return config.num_hidden_layers * (tokens * (frozen + lora) + attention) + 4 * config.hidden_size * config.vocab_size * labels
