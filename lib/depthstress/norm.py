"""RMSNorm (Zhang and Sennrich, 2019) with a frozen weight, in few passes over memory.

y = w x / rms(x),   dx = (w dy - x mean(w dy x) / rms(x)^2) / rms(x)
"""

from __future__ import annotations

from contextlib import AbstractContextManager

import torch

from .forwards import computed_by


class _RmsNorm(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x, weight, eps):
        scale = torch.linalg.vecdot(x, x).div_(x.shape[-1]).add_(eps).rsqrt_()[..., None]
        ctx.save_for_backward(x, weight, scale)
        return (x * scale).mul_(weight)

    @staticmethod
    def backward(ctx, gradient):
        x, weight, scale = ctx.saved_tensors
        dx = gradient * weight
        along = torch.linalg.vecdot(dx, x)[..., None].mul_(scale.pow(3)).div_(-x.shape[-1])
        return dx.mul_(scale).addcmul_(x, along), None, None


def is_rms_norm(module: torch.nn.Module) -> bool:
    """Whether a layer is transformers' RMSNorm, which has the same fields in every architecture."""
    return type(module).__name__.endswith("RMSNorm") and hasattr(module, "variance_epsilon")


def fused_norms(model: torch.nn.Module) -> AbstractContextManager[None]:
    """Compute the model's RMSNorm layers as above, in place of their own forward pass."""
    return computed_by(
        [module for module in model.modules() if is_rms_norm(module)],
        lambda layer, x: _RmsNorm.apply(x, layer.weight, layer.variance_epsilon),
    )
