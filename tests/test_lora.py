"""The fused LoRA layer against peft's."""

import pytest
import torch
from peft import LoraConfig
from peft.tuners.lora import Linear

from depthstress.lora import FusedLora


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
