"""Keys and values of the rows that are being written, and the forward pass that runs their new tokens packed.

The layers are transformers' own: a packed sequence of shape [1, tokens] goes through the model's forward, and an
attention function that is registered with transformers writes the new keys and values into the rows' slots and
attends row by row. Nothing is padded but the slots' ends, and nothing is copied from step to step.
"""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch.nn.functional import scaled_dot_product_attention

ATTENTION = "depthstress_slots"


@dataclass(frozen=True)
class Part:
    """Queries that attend together: `width` tokens of each of the slots [first, last), the packed tokens from `start` on;
    keys up to `length`; an additive mask of shape [slots, 1, 1 or width, length]."""

    first: int
    last: int
    start: int
    width: int
    length: int
    mask: torch.Tensor


class Slots:
    """A cache of `count` rows of at most `capacity` tokens; keys and values are [slot, head, position, dimension] in every layer."""

    def __init__(self, model, count: int, capacity: int) -> None:
        from transformers import AttentionInterface  # takes seconds

        # without a mask function of the same name transformers makes no mask, and none is needed
        AttentionInterface.register(ATTENTION, _slot_attention)
        config, self.model = model.config.get_text_config(), model
        self.count, self.capacity = count, capacity
        self.heads = config.num_key_value_heads
        shape = (count, self.heads, capacity, _head_dim(config))
        # zeros: what is masked still enters a product, and NaN times zero is NaN
        self.keys = [torch.zeros(shape, dtype=model.dtype, device=model.device) for _ in range(config.num_hidden_layers)]
        self.values = [torch.zeros_like(keys) for keys in self.keys]

    def copy(self, source: int, target: int, length: int) -> None:
        """Copy the first tokens of a row to another slot."""
        for cache in self.keys + self.values:
            cache[target, :, :length] = cache[source, :, :length]

    @torch.inference_mode()
    def run(self, new: list[list[int]], cached: list[int]) -> torch.Tensor:
        """Run the new tokens of the rows in slots 0, 1, ...; returns logits [rows, vocabulary] after each row's last token.

        The packed sequence has every row's last token first, in the order of the slots, and then what comes before
        these, row by row: so the last tokens attend as one batch, and the others as one part a row.
        """
        device = self.model.device
        rows = len(new)
        ends = [start + len(ids) for start, ids in zip(cached, new)]
        tokens = [ids[-1] for ids in new]
        positions = [end - 1 for end in ends]
        slots = list(range(rows))
        parts = [Part(0, rows, 0, 1, max(ends), _mask(torch.tensor(positions)[:, None, None], max(ends), self.model.dtype, device))]
        for slot, (ids, start, end) in enumerate(zip(new, cached, ends)):
            if width := len(ids) - 1:
                own = range(start, end - 1)
                mask = _mask(torch.tensor(own)[None, :, None], end - 1, self.model.dtype, device)
                parts.append(Part(slot, slot + 1, len(tokens), width, end - 1, mask))
                tokens += ids[:-1]
                positions += own
                slots += [slot] * width
        # where a token's key of each head belongs, if all but the last dimension of the cache were one
        first = torch.tensor(slots)[:, None] * self.heads + torch.arange(self.heads)
        self.parts, self.where = parts, (first * self.capacity + torch.tensor(positions)[:, None]).flatten().to(device)
        config = self.model.config
        before, config._attn_implementation = config._attn_implementation, ATTENTION
        try:
            output = self.model(
                input_ids=torch.tensor([tokens], device=device), position_ids=torch.tensor([positions], device=device),
                use_cache=False, logits_to_keep=torch.arange(rows, device=device), slots=self,
            )  # fmt: skip
        finally:
            config._attn_implementation = before
        return output.logits[0]

    def attend(self, layer: int, query: torch.Tensor, key: torch.Tensor, value: torch.Tensor, scaling: float | None) -> torch.Tensor:
        """Attention of one layer: query [1, heads, tokens, dimension], key and value of the new tokens with their heads;
        returns [1, tokens, heads, dimension]."""
        keys, values = self.keys[layer], self.values[layer]
        keys.flatten(0, 2).index_copy_(0, self.where, key[0].transpose(0, 1).flatten(0, 1))
        values.flatten(0, 2).index_copy_(0, self.where, value[0].transpose(0, 1).flatten(0, 1))
        heads, shared = query.shape[1], query.shape[1] // key.shape[1]
        query = query[0].transpose(0, 1)  # [tokens, heads, dimension]
        output = torch.empty_like(query)
        for part in self.parts:
            rows = part.last - part.first
            chosen = slice(part.start, part.start + rows * part.width)
            # query heads that share a key head attend as further queries of it, so that keys need no copy
            q = query[chosen].reshape(rows, part.width, -1, shared, query.shape[-1]).permute(0, 2, 3, 1, 4).flatten(2, 3)
            k = keys[part.first : part.last, :, : part.length]
            v = values[part.first : part.last, :, : part.length]
            mask = part.mask.repeat(1, 1, shared, 1) if part.width > 1 else part.mask
            attention = _of_few if part.width == 1 and q.device.type == "cpu" else scaled_dot_product_attention
            o = attention(q, k, v, attn_mask=mask, scale=scaling)  # [rows, key heads, shared * width, dimension]
            output[chosen] = o.unflatten(2, (shared, part.width)).permute(0, 3, 1, 2, 4).reshape(-1, heads, query.shape[-1])
        return output[None]


def _slot_attention(module, query, key, value, attention_mask, scaling=None, *, slots: Slots, **kwargs):
    return slots.attend(module.layer_idx, query, key, value, scaling), None


def _of_few(q, k, v, attn_mask: torch.Tensor, scale: float | None) -> torch.Tensor:
    """torch's attention with plain products: for few queries a row its kernel is slower than the memory on a CPU."""
    scores = torch.matmul(q, k.transpose(2, 3)).mul_(scale or q.shape[-1] ** -0.5).add_(attn_mask)
    return torch.matmul(scores.softmax(dim=-1, dtype=torch.float32).to(v.dtype), v)


def _mask(positions: torch.Tensor, length: int, dtype: torch.dtype, device: torch.device) -> torch.Tensor:
    """Additive mask [rows, 1, queries, length] for queries at these positions [rows, queries, 1]: each sees itself and what comes before."""
    hidden = torch.arange(length) > positions[:, None]
    return torch.zeros(hidden.shape, dtype=dtype).masked_fill_(hidden, float("-inf")).to(device)


def _head_dim(config) -> int:
    return getattr(config, "head_dim", None) or config.hidden_size // config.num_attention_heads


def bytes_a_token(model) -> int:
    """Bytes of the keys and values of one token: 2 x layers x key heads x dimension x bytes a number."""
    config = model.config.get_text_config()
    return 2 * config.num_hidden_layers * config.num_key_value_heads * _head_dim(config) * model.dtype.itemsize
