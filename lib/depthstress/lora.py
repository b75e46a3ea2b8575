"""A LoRA layer with its gradients written out, for frozen weights that are not in 4 bits.

    y  = x W^T + b + s (x A^T) B^T
    dx = dy W + s (dy B) A      dA = s (dy B)^T x      dB = s dy^T (x A^T)

The low-rank terms are added in place, and x A^T and dy B are computed once. So the cost above the frozen layer is
6 r (in + out) operations a token. Merging W + s B A once an update would save a third of that and spend as much on
the merge (2 r in out a layer, and one pass over all weights) at the few hundred tokens of an update here.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from contextlib import ExitStack, contextmanager

import torch
from peft.tuners.lora import Linear
from torch.nn.functional import linear

from .prepacked import Prepacked, prepackable


class FusedLora(Linear):
    """peft's LoRA layer, computed as above. Without dropout, on one active adapter, in the weights' own dtype."""

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        (name,) = self.active_adapters
        base = self.base_layer
        forth, back = vars(base).get("prepacked") or (lambda x: linear(x, base.weight, base.bias), lambda dy: dy @ base.weight)
        return _Product.apply(x, forth, back, self.lora_A[name].weight, self.lora_B[name].weight, self.scaling[name])


@contextmanager
def prepacked(layers: Iterable[torch.nn.Linear]) -> Iterator[None]:
    """Frozen linear layers to be trained on, laid out once for either direction, x W^T + b and dy W, as their `prepacked`.

    Their plain weights are empty meanwhile, as a third copy would be memory for nothing: the layers can't be read, merged or saved.
    Each comes back bit by bit, also where another one fails to. A layer that is prepacked already stays so, also afterwards.
    """
    with ExitStack() as stack:
        for layer in layers:
            if prepackable(layer.weight) and not hasattr(layer, "prepacked"):
                stack.callback(_unpack, layer)
                _prepack(layer)
        yield


def _prepack(layer: torch.nn.Linear) -> None:
    """Nothing changes where the weight would not come back bit by bit."""
    forth = Prepacked(layer.weight, layer.bias)
    if torch.equal(forth.dense(), layer.weight):
        layer.prepacked = forth, Prepacked(layer.weight.detach().t())
        layer.weight.data = layer.weight.data.new_empty(0)


def _unpack(layer: torch.nn.Linear) -> None:
    if hasattr(layer, "prepacked"):
        layer.weight.data = layer.prepacked[0].dense()
        del layer.prepacked


class _Product(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x, forth, back, a, b, scale):
        flat = x.flatten(0, -2)
        low = flat @ a.T
        y = forth(flat).addmm_(low, b.T.contiguous(), alpha=scale)
        ctx.save_for_backward(flat, low, a, b)
        ctx.back, ctx.scale = back, scale
        return y.view(*x.shape[:-1], -1)

    @staticmethod
    def backward(ctx, gradient):
        x, low, a, b = ctx.saved_tensors
        dy = gradient.flatten(0, -2)
        dlow = (dy @ b).mul_(ctx.scale)
        dx = ctx.back(dy).addmm_(dlow, a).view(*gradient.shape[:-1], -1) if ctx.needs_input_grad[0] else None
        return dx, None, None, (x.T @ dlow).T, (dy.T @ low).mul_(ctx.scale), None
