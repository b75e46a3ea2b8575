"""The fused LoRA layer against peft's."""

from contextlib import nullcontext

import pytest
import torch
from peft import LoraConfig
from peft.tuners.lora import Linear

from depthstress import lora
from depthstress.lora import FusedLora, prepacked
from depthstress.prepacked import prepackable


@pytest.mark.parametrize("bias", [False, True])
def test_outputs_and_gradients_are_pefts(bias):
    config = LoraConfig(r=3, lora_alpha=6)
    results = []
    for kind in (Linear, FusedLora):
        torch.manual_seed(0)
        layer = kind(torch.nn.Linear(8, 5, bias=bias).requires_grad_(False).double(), "default", config, r=3, lora_alpha=6).double()
        layer.lora_B["default"].weight.data.normal_()
        x = torch.randn(2, 7, 8, dtype=torch.double, requires_grad=True)
        y = layer(x)
        y.square().sum().backward()
        results.append((y.detach(), x.grad, layer.lora_A["default"].weight.grad, layer.lora_B["default"].weight.grad))
    torch.testing.assert_close(results[0], results[1])


def test_gradients_are_those_of_finite_differences():
    torch.manual_seed(0)
    layer = FusedLora(
        torch.nn.Linear(4, 5).requires_grad_(False).double(), "default", LoraConfig(r=2, lora_alpha=6), r=2, lora_alpha=6
    ).double()
    layer.lora_B["default"].weight.data.normal_()
    weights = dict(layer.named_parameters())
    names = [name for name, weight in weights.items() if weight.requires_grad]
    x = torch.randn(3, 4, dtype=torch.double, requires_grad=True)

    def function(x, *given):
        return torch.func.functional_call(layer, dict(zip(names, given)), (x,))

    assert torch.autograd.gradcheck(function, (x, *(weights[name] for name in names)))


def lora_layer(bias: bool, kind=FusedLora):
    torch.manual_seed(0)
    layer = kind(torch.nn.Linear(8, 6, bias=bias).requires_grad_(False), "default", LoraConfig(r=3, lora_alpha=6), r=3, lora_alpha=6)
    layer.lora_B["default"].weight.data.normal_()
    return layer


needs_prepacking = pytest.mark.skipif(not prepackable(torch.zeros(1, 1)), reason="this torch has no prepacked products")


@needs_prepacking
@pytest.mark.parametrize("bias", [False, True])
def test_prepacked_it_computes_the_same_and_comes_back(bias):
    results = []
    for kind in (Linear, FusedLora):
        layer = lora_layer(bias, kind)
        weight = layer.base_layer.weight.clone()
        with prepacked([layer.base_layer]) if kind is FusedLora else nullcontext():
            assert layer.base_layer.weight.numel() == (0 if kind is FusedLora else 48)
            x = torch.linspace(-1, 1, 112).view(2, 7, 8).requires_grad_()
            y = layer(x)
            y.square().sum().backward()
        results.append((y.detach(), x.grad, layer.lora_A["default"].weight.grad, layer.lora_B["default"].weight.grad))
        assert torch.equal(layer.base_layer.weight, weight)
    torch.testing.assert_close(results[0], results[1])


@needs_prepacking
def test_every_weight_comes_back_however_it_ends(monkeypatch):
    layers = [torch.nn.Linear(8, 6) for _ in range(3)]
    weights = [layer.weight.clone() for layer in layers]
    unpack = lora._unpack

    def fails_once(layer):
        unpack(layer)
        if layer is layers[1]:
            raise KeyboardInterrupt

    monkeypatch.setattr(lora, "_unpack", fails_once)
    with pytest.raises(KeyboardInterrupt), prepacked(layers):
        raise ValueError("in training")
    assert all(torch.equal(layer.weight, weight) for layer, weight in zip(layers, weights))


@needs_prepacking
def test_what_is_prepacked_already_stays_so():
    layer = torch.nn.Linear(8, 6)
    with prepacked([layer]):
        first = layer.prepacked
        with prepacked([layer]):
            assert layer.prepacked is first
        assert layer.prepacked is first and not layer.weight.numel()
    assert not hasattr(layer, "prepacked") and layer.weight.numel()


@needs_prepacking
def test_a_weight_that_would_not_come_back_stays_plain(monkeypatch):
    layer = torch.nn.Linear(8, 6)
    weight = layer.weight.clone()
    monkeypatch.setattr("depthstress.prepacked.Prepacked.dense", lambda self: self.weight.to_dense() + 1e-6)
    with prepacked([layer]):
        assert not hasattr(layer, "prepacked") and torch.equal(layer.weight, weight)
