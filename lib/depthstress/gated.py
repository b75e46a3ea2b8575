"""The gated MLP (Shazeer, 2020: SwiGLU), its product of silu(g) and u in few passes over memory.

    y = s(g) u        dg = dy u s'(g)        du = dy s(g)

Kept for the way back are g and u alone: s(g) is computed again.
"""

from __future__ import annotations

from contextlib import AbstractContextManager

import torch
from torch.nn.functional import silu

from .forwards import computed_by

KNOWN = {"LlamaMLP", "MistralMLP", "Qwen2MLP", "Qwen3MLP"}


class _Gate(torch.autograd.Function):
    @staticmethod
    def forward(ctx, g, u):
        ctx.save_for_backward(g, u)
        return silu(g).mul_(u)

    @staticmethod
    def backward(ctx, dy):
        g, u = ctx.saved_tensors
        return torch.ops.aten.silu_backward(dy * u, g), silu(g).mul_(dy)


def is_gated_mlp(module: torch.nn.Module) -> bool:
    """Whether a layer is one of transformers' MLPs that compute down(silu(gate(x)) up(x)) and nothing else: others have the
    same fields, and multipliers or limits besides."""
    return type(module).__name__ in KNOWN and "SiLU" in type(module.act_fn).__name__


def fused_gates(model: torch.nn.Module) -> AbstractContextManager[None]:
    """Compute the model's gated MLPs as above, in place of their own forward pass."""
    return computed_by(
        [module for module in model.modules() if is_gated_mlp(module)],
        lambda layer, x: layer.down_proj(_Gate.apply(layer.gate_proj(x), layer.up_proj(x))),
    )
