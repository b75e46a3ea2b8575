"""The gated MLP in few passes."""

import pytest
import torch
from transformers import LlamaConfig, Qwen3Config
from transformers.models.llama.modeling_llama import LlamaMLP
from transformers.models.qwen3.modeling_qwen3 import Qwen3MLP

from depthstress.gated import fused_gates


@pytest.mark.parametrize("kind, config", [(LlamaMLP, LlamaConfig), (Qwen3MLP, Qwen3Config)])
def test_outputs_and_gradients_are_those_of_transformers(kind, config):
    torch.manual_seed(0)
    layer = kind(config(hidden_size=12, intermediate_size=20, num_attention_heads=2, num_key_value_heads=2))
    x, upstream = torch.randn(1, 7, 12) * 3, torch.randn(1, 7, 12)
    results = []
    for fused in (False, True):
        layer.zero_grad()
        given = x.clone().requires_grad_()
        with fused_gates(torch.nn.ModuleList([layer] if fused else [])):
            y = layer(given)
        y.backward(upstream)
        results.append((y.detach(), given.grad, *(weight.grad.clone() for weight in layer.parameters())))
    torch.testing.assert_close(results[0], results[1])


def test_the_layers_are_as_before_afterwards(tiny_qwen3):
    with fused_gates(tiny_qwen3.model):
        assert sum("forward" in vars(module) for module in tiny_qwen3.model.modules()) == 2
    assert not any("forward" in vars(module) for module in tiny_qwen3.model.modules())
