"""RMSNorm in few passes."""

import pytest
import torch
from transformers.models.llama.modeling_llama import LlamaRMSNorm
from transformers.models.qwen3.modeling_qwen3 import Qwen3RMSNorm

from depthstress.norm import fused_norms


@pytest.mark.parametrize("kind", [LlamaRMSNorm, Qwen3RMSNorm])
@pytest.mark.parametrize("shape", [(1, 7, 12), (1, 7, 3, 12)])
def test_outputs_and_gradients_are_those_of_transformers(kind, shape):
    torch.manual_seed(0)
    layer = kind(12, eps=1e-3).requires_grad_(False)
    layer.weight.data.normal_()
    x, upstream = torch.randn(shape), torch.randn(shape)
    x[0, 0] *= 1e-3  # where eps counts
    results = []
    for fused in (False, True):
        given = x.clone().requires_grad_()
        with fused_norms(torch.nn.ModuleList([layer] if fused else [])):
            y = layer(given)
        y.backward(upstream)
        results.append((y.detach(), given.grad))
    torch.testing.assert_close(results[0], results[1])


def test_the_layers_are_as_before_afterwards(tiny_qwen3):
    with fused_norms(tiny_qwen3.model):
        assert sum("forward" in vars(module) for module in tiny_qwen3.model.modules()) == 2 * 4 + 1  # four a layer, and the last
    assert not any("forward" in vars(module) for module in tiny_qwen3.model.modules())
