"""Cross entropy where there are labels, without all logits at once.

The gradient with respect to the hidden states is computed with the loss, chunk by chunk, as in Liger Kernel
(Hsu et al., 2024): a vocabulary of 150,000 in fp32 would take more memory than the model.

A premature end can be punished on top: unlikelihood (Welleck et al., 2020, ICLR, eq. 4) of the end token where it must
not stand, -w log(1 - p), whose gradient in the logits is w p / (1 - p) times (the end token's one less the softmax).
"""

from __future__ import annotations

from collections.abc import Callable

import torch
from torch.nn.functional import log_softmax

CHUNK = {"cpu": 2**22, "cuda": 2**24}  # logits held at once: 16 and 64 MiB in fp32


class _CrossEntropy(torch.autograd.Function):
    @staticmethod
    def forward(ctx, hidden, project, weight, labels, end, punished):
        total = hidden.new_zeros((), dtype=torch.float32)
        gradient = torch.empty_like(hidden)
        size = max(1, CHUNK[hidden.device.type] // len(weight))
        for first in range(0, len(hidden), size):
            part = slice(first, first + size)
            chosen = labels[part, None]
            logs = log_softmax(project(hidden[part]).float(), -1)
            total -= logs.gather(1, chosen).sum()
            slope = logs.exp_()  # softmax less the label's one
            if punished is not None:
                p = slope[:, end].clamp(max=1 - 1e-6)
                total -= (punished[part] * torch.log1p(-p)).sum()
                pull = punished[part] * p / (1 - p)
                slope *= 1 - pull[:, None]
                slope[:, end] += pull
            slope.scatter_add_(1, chosen, slope.new_full((), -1.0).expand(chosen.shape))
            gradient[part] = slope.to(weight.dtype) @ weight
        ctx.save_for_backward(gradient)
        return total

    @staticmethod
    def backward(ctx, scale):
        (gradient,) = ctx.saved_tensors
        return gradient * scale.to(gradient.dtype), None, None, None, None, None


def summed_cross_entropy(
    hidden: torch.Tensor,
    head: torch.nn.Linear,
    labels: torch.Tensor,
    end: int = 0,
    punished: torch.Tensor | None = None,
    project: Callable[[torch.Tensor], torch.Tensor] | None = None,
) -> torch.Tensor:
    """The sum, in fp32, of the cross entropy of `labels` (targets,) given hidden states (targets, width) and a frozen head;
    with `punished` (targets,), weights of the unlikelihood of the token `end` at each target, that as well. `project`:
    what computes the head's logits, if not the head."""
    return _CrossEntropy.apply(hidden, project or head, head.weight, labels, end, punished)
