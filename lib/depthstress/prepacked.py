"""Products with a frozen matrix on a CPU: oneDNN's kernels on a weight that is laid out for them once.

torch hands a plain weight to the matrix library as it lies in memory, and it is laid out anew in every product. oneDNN's
product on a prepacked weight is up to twice as fast with few rows, and goes over its output once with what follows it.
The operators are those that torch's compiler puts into a frozen model for a CPU; they are not public, so the pinned torch decides.
"""

from __future__ import annotations

import torch
from torch.nn.functional import linear, silu

_ONEDNN = torch.ops.mkldnn


def prepackable(weight: torch.Tensor) -> bool:
    """Whether this torch has such a product for the weight: fp32, on a CPU."""
    return weight.device.type == "cpu" and weight.dtype == torch.float32 and torch.backends.mkldnn.is_available()


class Prepacked:
    """x W' + b for a frozen weight W [outputs, inputs] and bias b [outputs] or None, on x [..., inputs]; to be called without gradients. It
    holds a copy of the weight where the weight is prepackable, and computes the same without one elsewhere."""

    def __init__(self, weight: torch.Tensor, bias: torch.Tensor | None = None) -> None:
        self.packs = prepackable(weight)
        self.weight = _ONEDNN._reorder_linear_weight(weight.detach().contiguous()) if self.packs else weight
        self.bias = bias

    def __call__(self, x: torch.Tensor) -> torch.Tensor:
        if not self.packs:
            return linear(x, self.weight, self.bias)
        return _ONEDNN._linear_pointwise(x, self.weight, self.bias, "none", [], "")

    def dense(self) -> torch.Tensor:
        """The weight [outputs, inputs], as it was given."""
        return self.weight.to_dense() if self.packs else self.weight

    def silu(self, x: torch.Tensor) -> torch.Tensor:
        """silu(x W' + b)."""
        if not self.packs:
            return silu(linear(x, self.weight, self.bias), inplace=True)
        return _ONEDNN._linear_pointwise(x, self.weight, self.bias, "swish", [], "")

    def times(self, x: torch.Tensor, factor: torch.Tensor) -> torch.Tensor:
        """(x W' + b) * factor, with a factor of the product's shape."""
        if not self.packs:
            return linear(x, self.weight, self.bias).mul_(factor)
        return _ONEDNN._linear_pointwise.binary(x, factor, self.weight, self.bias, "mul")
