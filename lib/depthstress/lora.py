"""A LoRA layer with its gradients written out, for frozen weights that are held in full.

    y  = x W^T + b + s (x A^T) B^T
    dx = dy W + s (dy B) A      dA = s (dy B)^T x      dB = s dy^T (x A^T)

The low-rank terms are added in place, and x A^T and dy B are computed once. So the cost above the frozen layer is
6 r (in + out) operations a token. Merging W + s B A once an update would save a third of that and spend as much on
the merge (2 r in out a layer, and one pass over all weights) at the few hundred tokens of an update here.
"""

from __future__ import annotations

import torch
from peft.tuners.lora import Linear

from .prepacked import Prepacked


class FusedLora(Linear):
    """peft's LoRA layer, computed as above. Without dropout, on one active adapter, in the weights' own dtype.

    On a CPU it holds two more copies of the weight, prepacked for either direction.
    """

    products: tuple[Prepacked, Prepacked] | None = None  # x W^T + b and dy W; made when they are first needed

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        (name,) = self.active_adapters
        base = self.base_layer
        self.products = self.products or (Prepacked(base.weight, base.bias), Prepacked(base.weight.t()))
        return _Product.apply(x, *self.products, self.lora_A[name].weight, self.lora_B[name].weight, self.scaling[name])


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
