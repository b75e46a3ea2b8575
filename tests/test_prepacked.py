"""Products on prepacked weights are those of a linear layer."""

import pytest
import torch
from torch.nn.functional import linear, silu

from depthstress.prepacked import Prepacked, prepackable

CPU_HAS_THEM = torch.backends.mkldnn.is_available()


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
@pytest.mark.parametrize("bias", [True, False])
@pytest.mark.parametrize("shape", [(1, 24), (5, 24), (2, 7, 24), (300, 24)])
def test_it_is_a_linear_layer(dtype, bias, shape):
    torch.manual_seed(0)
    weight, b, x = torch.randn(40, 24, dtype=dtype), torch.randn(40, dtype=dtype) if bias else None, torch.randn(shape, dtype=dtype)
    factor, plain = torch.randn(*shape[:-1], 40, dtype=dtype), linear(x, weight, b)
    before = factor.clone()
    product = Prepacked(weight, b)
    assert product.packs == (dtype == torch.float32 and CPU_HAS_THEM)
    for value, expected in ((product(x), plain), (product.silu(x), silu(plain)), (product.times(x, factor), plain * before)):
        assert value.shape == expected.shape and value.layout == torch.strided
        assert torch.allclose(value, expected, atol=1e-5, rtol=1e-5)
    assert torch.equal(factor, before)


def test_a_weight_and_rows_in_any_order_of_memory():
    weight, x = torch.randn(24, 40).t(), torch.randn(24, 9).t()
    assert torch.allclose(Prepacked(weight)(x), linear(x, weight), atol=1e-5)


def test_what_is_prepacked_is_a_copy():
    weight = torch.randn(8, 24)
    product, x = Prepacked(weight), torch.randn(3, 24)
    expected = linear(x, weight)
    if product.packs:
        weight.zero_()
        assert torch.allclose(product(x), expected, atol=1e-5)


def test_only_fp32_is():
    assert not prepackable(torch.zeros(2, 2, dtype=torch.bfloat16))
