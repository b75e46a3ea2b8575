"""A LoRA layer with its gradients written out, for frozen weights that are not in 4 bits.

    y  = x W^T + b + s (x A^T) B^T
    dx = dy W + s (dy B) A      dA = s (dy B)^T x      dB = s dy^T (x A^T)

The low-rank terms are added in place, and x A^T and dy B are computed once. So the cost above the frozen layer is
6 r (in + out) operations a token. Merging W + s B A once an update would save a third of that and spend as much on
the merge (2 r in out a layer, and one pass over all weights) at the few hundred tokens of an update here.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack, contextmanager

import torch
from peft.tuners.lora import Linear
from torch.nn.functional import linear

from .prepacked import Prepacked, prepackable


class FusedLora(Linear):
    """peft's LoRA layer, computed as above. Without dropout, on one active adapter, in the weights' own dtype.

    Between `prepack` and `unpack` the frozen weight is held prepacked, once for either direction, and the plain one is
    empty: a third copy would be memory for nothing. Meanwhile the base can't be read, merged or saved.
    """

    forth: Prepacked | None = None  # x W^T + b
    back: Prepacked | None = None  # dy W

    def prepack(self) -> None:
        """Hold the weight prepacked, where it can be and comes back bit by bit; else nothing changes."""
        weight = self.base_layer.weight
        if self.forth or not prepackable(weight):
            return
        forth = Prepacked(weight, self.base_layer.bias)
        if torch.equal(forth.dense(), weight):
            self.forth, self.back = forth, Prepacked(weight.detach().t())
            weight.data = weight.data.new_empty(0)

    def unpack(self) -> None:
        """Put the plain weight back."""
        if self.forth and not self.base_layer.weight.numel():
            self.base_layer.weight.data = self.forth.dense()
        self.forth = self.back = None

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        (name,) = self.active_adapters
        base = self.base_layer
        forth = self.forth or (lambda x: linear(x, base.weight, base.bias))
        back = self.back or (lambda dy: dy @ base.weight)
        return _Product.apply(x, forth, back, self.lora_A[name].weight, self.lora_B[name].weight, self.scaling[name])


@contextmanager
def prepacked(model: torch.nn.Module) -> Iterator[None]:
    """Every FusedLora layer on prepacked weights; each comes back, also where another one fails to."""
    with ExitStack() as stack:
        for layer in model.modules():
            if isinstance(layer, FusedLora):
                stack.callback(layer.unpack)
                layer.prepack()
        yield


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
