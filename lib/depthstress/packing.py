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
    from transformers import AttentionInterface  # takes seconds

    AttentionInterface.register(ATTENTION, _attend)
    before = causal.config._attn_implementation
    causal.config._attn_implementation = ATTENTION
    try:
        yield
    finally:
        causal.config._attn_implementation = before


def _attend(module, query, key, value, attention_mask, scaling: float, packed: Packed, **_):
    """The attention of one layer, in transformers' interface. query: (1, heads, n, size); key and value:
    (1, kv heads, n, size). Returns (1, n, heads, size), and no attention weights."""
    query, key, value = (_Spread.apply(states[0].transpose(0, 1), packed) for states in (query, key, value))
    explicit = query.device.type == "cpu" and query.shape[2] <= EXPLICIT
    return _Collect.apply((_explicit if explicit else _kernel)(query, key, value, scaling), packed)[None], None


def _kernel(query, key, value, scaling: float) -> torch.Tensor:
    """torch's attention on (rows, heads, length, size)."""
    return scaled_dot_product_attention(query, key, value, is_causal=True, scale=scaling, enable_gqa=query.shape[1] != key.shape[1])


def _explicit(query, key, value, scaling: float) -> torch.Tensor:
    """The same as batched products, the query heads that share a key head in one."""
    length, groups = query.shape[2], query.shape[1] // key.shape[1]
    mask = query.new_full((length, length), float("-inf")).triu_(1).repeat(groups, 1)
    key, value = key.flatten(0, 1), value.flatten(0, 1)
    weights = torch.baddbmm(mask, query.view(len(key), -1, query.shape[3]), key.transpose(1, 2), alpha=scaling).softmax(-1)
    return torch.bmm(weights, value).view(query.shape)


def _spread_index(packed: Packed, heads: int) -> torch.Tensor:
    """(rows, heads, length): where each place's state lies in (n, heads), flat."""
    head = torch.arange(heads, device=packed.nodes.device)
    return packed.nodes[:, None] * heads + head[:, None]


def _collect_index(packed: Packed, places: torch.Tensor, heads: int) -> torch.Tensor:
    """(len(places), heads): where the states of these places lie in (rows, heads, length), flat."""
    length = packed.nodes.shape[1]
    head = torch.arange(heads, device=places.device)
    return (places // length * heads * length + places % length)[:, None] + head * length


class _Spread(torch.autograd.Function):
    """(n, heads, size) to (rows, heads, length, size): every place gets its node's state."""

    @staticmethod
    def forward(ctx, states, packed):
        ctx.packed, ctx.shape = packed, states.shape
        index = _spread_index(packed, states.shape[1])
        return states.reshape(-1, states.shape[2]).index_select(0, index.flatten()).view(*index.shape, -1)

    @staticmethod
    def backward(ctx, gradient):
        packed, (n, heads, size) = ctx.packed, ctx.shape
        flat = gradient.reshape(-1, size)
        summed = flat.index_select(0, _collect_index(packed, packed.first, heads).flatten()).view(n, -1)
        repeated = flat.index_select(0, _collect_index(packed, packed.repeats, heads).flatten()).view(-1, heads * size)
        summed.index_add_(0, packed.nodes.flatten()[packed.repeats], repeated)
        return summed.view(ctx.shape), None


class _Collect(torch.autograd.Function):
    """(rows, heads, length, size) to (n, heads, size): a node's state at its first place."""

    @staticmethod
    def forward(ctx, states, packed):
        ctx.packed, ctx.shape = packed, states.shape
        index = _collect_index(packed, packed.first, states.shape[1])
        return states.reshape(-1, states.shape[3]).index_select(0, index.flatten()).view(*index.shape, -1)

    @staticmethod
    def backward(ctx, gradient):
        states = gradient.new_zeros(ctx.shape)
        index = _collect_index(ctx.packed, ctx.packed.first, ctx.shape[1])
        return states.view(-1, ctx.shape[3]).index_copy_(0, index.flatten(), gradient.flatten(0, 1)).view(ctx.shape), None
