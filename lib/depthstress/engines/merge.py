"""A LoRA adapter as plain weights while texts are generated, so that every linear layer is one matrix product."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

import torch
from peft.tuners.lora import LoraLayer
from peft.utils.integrations import dequantize_module_weight


@contextmanager
def merged(model) -> Iterator[torch.nn.Module]:
    """The transformers model of a PEFT model, its LoRA layers replaced by linear layers of W + scaling B A; undone at the end.

    The sum is a new tensor in the weights' (dequantised) values and never goes back into 4 bits, which would change
    what the model writes (peft#2321). The adapter's own layers are put back untouched, so nothing has to be restored.
    """
    base = model.get_base_model()
    layers = {name: module for name, module in base.named_modules() if isinstance(module, LoraLayer)}
    try:
        for name, layer in layers.items():
            base.set_submodule(name, _linear(layer))
        yield base
    finally:
        for name, layer in layers.items():
            base.set_submodule(name, layer)


@torch.no_grad()
def _linear(layer: LoraLayer) -> torch.nn.Linear:
    original = layer.get_base_layer()
    weight = dequantize_module_weight(original).detach()
    for adapter in layer.active_adapters:
        weight = (weight + layer.get_delta_weight(adapter)).to(weight.dtype)
    linear = torch.nn.Linear(layer.in_features, layer.out_features, bias=False, device="meta")
    linear.weight = torch.nn.Parameter(weight, requires_grad=False)
    if original.bias is not None:
        linear.bias = torch.nn.Parameter(original.bias.detach(), requires_grad=False)
    return linear.eval()
