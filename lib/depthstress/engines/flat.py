"""The model as a CPU runs it fastest while texts are generated: LoRA merged in, few and well-shaped operations.

Of the model's own layers only those are replaced that can be computed the same with fewer passes over memory: linear
layers, gated MLPs and norms.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

import torch
from torch.nn import Linear, Module, RMSNorm

from ..gated import is_gated_mlp
from ..norm import is_rms_norm
from ..prepacked import Prepacked


class Frozen(Module):
    """A linear layer on a prepacked weight."""

    def __init__(self, weight: torch.Tensor, bias: torch.Tensor | None) -> None:
        super().__init__()
        self.product = Prepacked(weight, bias)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.product(x)


class GatedMlp(Module):
    """down(silu(gate(x)) * up(x)), in three passes."""

    def __init__(self, gate: torch.Tensor, up: torch.Tensor, down: torch.Tensor) -> None:
        super().__init__()
        self.gate, self.up, self.down = map(Prepacked, (gate, up, down))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.down(self.up.times(x, self.gate.silu(x)))


@contextmanager
def flattened(model) -> Iterator[Module]:
    """The transformers model of a PEFT (or plain) model, its layers replaced as said above; undone at the end.

    A linear layer with LoRA becomes one of W + scaling B A: a new tensor in the weights' (dequantised) values that never
    goes back into 4 bits, which would change what the model writes (peft#2321). The layers themselves are put back
    untouched, so nothing has to be restored.
    """
    base = model.get_base_model() if hasattr(model, "get_base_model") else model
    taken_out: list[tuple[Module, str, Module]] = []
    try:
        _replace(base, taken_out)
        yield base
    finally:
        for parent, name, child in taken_out:
            setattr(parent, name, child)


@torch.no_grad()
def _replace(parent: Module, taken_out: list[tuple[Module, str, Module]]) -> None:
    for name, child in list(parent.named_children()):
        if flat := _flat(child):
            taken_out.append((parent, name, child))
            setattr(parent, name, flat.eval())
        else:
            _replace(child, taken_out)


def _flat(module: Module) -> Module | None:
    """What computes the same as a layer, faster; None where the layer is of no kind that is known."""
    if type(module) is Linear or _has_lora(module):
        return Frozen(_weight(module), _plain(module).bias)
    if is_rms_norm(module):
        norm = RMSNorm(module.weight.shape, module.variance_epsilon, device="meta")
        norm.weight = module.weight
        return norm
    if is_gated_mlp(module):
        projections = module.gate_proj, module.up_proj, module.down_proj
        if all(_plain(layer).bias is None for layer in projections):
            return GatedMlp(*map(_weight, projections))
    return None


def _has_lora(layer: Module) -> bool:
    """Whether it is a LoRA layer of peft, which is not imported to ask."""
    return hasattr(layer, "get_delta_weight")


def _plain(layer: Module) -> Module:
    return layer.get_base_layer() if _has_lora(layer) else layer


def _weight(layer: Module) -> torch.Tensor:
    """A linear layer's weight, with the adapters on it."""
    from peft.utils.integrations import dequantize_module_weight

    weight = dequantize_module_weight(_plain(layer)).detach()
    for adapter in layer.active_adapters if _has_lora(layer) else ():
        weight = (weight + layer.get_delta_weight(adapter)).to(weight.dtype)
    return weight
