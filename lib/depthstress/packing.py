"""Rows packed as a prefix tree: what several rows begin with alike is computed once, and nothing is padding.

All prompts of an arm begin with the same words, and many go on alike. In a causal model a token's hidden state
depends on the tokens up to it alone, so that rows need one state for every distinct beginning: a node of their
prefix tree. Everything but attention runs on the flat list of nodes. Attention spreads keys, values and queries
over the rows and collects one output a node. Gradients of a shared node are summed over its rows, so loss and
gradients are those of the rows one by one.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, fields

import torch
from torch.nn.functional import scaled_dot_product_attention
from transformers import AttentionInterface

ATTENTION = "prefix_tree"
EXPLICIT = 256  # row length up to which, on a CPU, attention as two products beats torch's flash kernel (about twice as fast at 70)


@dataclass(frozen=True)
class Packed:
    """Rows as a prefix tree, `n` nodes for `rows x length` places (the padding of a place repeats node 0).

    tokens, positions: (1, n), a node's token and depth; nodes: (rows, length), the node at each place;
    first: (n,), the first place that has the node; repeats: the other places, without padding;
    labelled, labels: (targets,), the node before each target token, and that token.
    """

    tokens: torch.Tensor
    positions: torch.Tensor
    nodes: torch.Tensor
    first: torch.Tensor
    repeats: torch.Tensor
    labelled: torch.Tensor
    labels: torch.Tensor

    def to(self, device: torch.device) -> Packed:
        """The same on a device."""
        return Packed(*(getattr(self, field.name).to(device) for field in fields(self)))


def pack(rows: list[tuple[list[int], list[int]]]) -> Packed:
    """Pack rows of (prompt, target) tokens; the last token of a target is a label only, never an input."""
    inputs = [(prompt + target)[:-1] for prompt, target in rows]
    length = max(map(len, inputs))
    numbers: dict[tuple[int, int], int] = {}  # (parent, token) to node
    tokens, positions, first, repeats, labelled = [], [], [], [], []
    nodes = torch.zeros(len(rows), length, dtype=torch.long)
    for row, (prompt, _) in enumerate(rows):
        path, parent = [], -1
        for column, token in enumerate(inputs[row]):
            node = numbers.setdefault((parent, token), len(tokens))
            if node == len(tokens):
                tokens.append(token)
                positions.append(column)
                first.append(row * length + column)
            else:
                repeats.append(row * length + column)
            path.append(node)
            parent = node
        nodes[row, : len(path)] = torch.tensor(path)
        labelled += path[len(prompt) - 1 :]
    labels = [token for _, target in rows for token in target]
    return Packed(
        torch.tensor([tokens]), torch.tensor([positions]), nodes, torch.tensor(first), torch.tensor(repeats, dtype=torch.long),
        torch.tensor(labelled), torch.tensor(labels),
    )  # fmt: skip


@contextmanager
def packed_attention(causal: torch.nn.Module) -> Iterator[None]:
    """Let a transformers model attend along `packed=...`, a keyword of its forward pass (kept for the backward
    pass too, where layers may be computed again)."""
    before = causal.config._attn_implementation
    causal.config._attn_implementation = ATTENTION
    try:
        yield
    finally:
        causal.config._attn_implementation = before


def _attend(module, query, key, value, attention_mask, scaling: float, packed: Packed, **_):
    """The attention of one layer, in transformers' interface. query: (1, heads, n, size); key and value:
    (1, kv heads, n, size). Returns (1, n, heads, size), and no attention weights."""
    spread = [_Spread.apply(states[0].transpose(0, 1), packed) for states in (query, key, value)]
    attend = _explicit if query.device.type == "cpu" and packed.nodes.shape[1] <= EXPLICIT else _kernel
    return _Collect.apply(attend(*spread, scaling), packed)[None], None


def _kernel(query, key, value, scaling: float) -> torch.Tensor:
    """torch's attention on (rows, length, heads, size)."""
    query, key, value = (states.transpose(1, 2) for states in (query, key, value))
    grouped = query.shape[1] != key.shape[1]
    return scaled_dot_product_attention(query, key, value, is_causal=True, scale=scaling, enable_gqa=grouped).transpose(1, 2)


def _explicit(query, key, value, scaling: float) -> torch.Tensor:
    """The same as batched products, the query heads that share a key head in one."""
    rows, length, heads, size = query.shape
    shared = key.shape[2]
    batched = rows * shared
    query = query.transpose(1, 2).reshape(batched, -1, size)
    key, value = (states.transpose(1, 2).reshape(batched, length, size) for states in (key, value))
    mask = query.new_full((length, length), float("-inf")).triu_(1).repeat(heads // shared, 1)
    weights = torch.baddbmm(mask, query, key.transpose(1, 2), alpha=scaling).softmax(-1)
    return torch.bmm(weights, value).view(rows, heads, length, size).transpose(1, 2)


class _Spread(torch.autograd.Function):
    """(n, ...) to (rows, length, ...): every place gets its node's state."""

    @staticmethod
    def forward(ctx, states, packed):
        ctx.packed = packed
        return states[packed.nodes]

    @staticmethod
    def backward(ctx, gradient):
        packed, places = ctx.packed, gradient.flatten(0, 1)
        summed = places.index_select(0, packed.first)
        return summed.index_add_(0, packed.nodes.flatten()[packed.repeats], places.index_select(0, packed.repeats)), None


class _Collect(torch.autograd.Function):
    """(rows, length, ...) to (n, ...): a node's state at its first place."""

    @staticmethod
    def forward(ctx, places, packed):
        ctx.packed, ctx.shape = packed, places.shape
        return places.flatten(0, 1).index_select(0, packed.first)

    @staticmethod
    def backward(ctx, gradient):
        places = gradient.new_zeros(ctx.shape)
        places.view(-1, *ctx.shape[2:])[ctx.packed.first] = gradient
        return places, None


AttentionInterface.register(ATTENTION, _attend)
