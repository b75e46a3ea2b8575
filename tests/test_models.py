"""The base model in memory."""

import pytest
import torch
from bitsandbytes.nn import Linear4bit
from transformers import AutoModelForCausalLM, BitsAndBytesConfig

from depthstress import bundled
from depthstress.models import held_as, load_base
from depthstress.suites import load_model


@pytest.fixture
def saved(tiny_base, tmp_path):
    """Settings of a tiny model in a local folder, NF4 with fp32 compute on a CPU."""
    folder = tmp_path / "tiny"
    tiny_base.model.save_pretrained(folder)
    tiny_base.tokenizer.save_pretrained(folder)
    settings = load_model("smollm2-135m")
    source = settings.source.model_copy(update={"wheel": None, "member": None, "sha256": None, "hub": str(folder)})
    return settings.model_copy(update={"source": source})


@pytest.mark.skipif(torch.cuda.is_available(), reason="on CUDA the weights stay in 4 bits")
def test_on_a_cpu_the_base_holds_the_values_that_nf4_layers_compute_with(saved):
    config = BitsAndBytesConfig(
        load_in_4bit=True, bnb_4bit_quant_type="nf4", bnb_4bit_use_double_quant=True, bnb_4bit_compute_dtype=torch.float32
    )
    quantised = AutoModelForCausalLM.from_pretrained(saved.source.hub, dtype=torch.float32, quantization_config=config)
    layers = [module for module in quantised.modules() if isinstance(module, Linear4bit)]
    assert layers
    for layer in layers:  # where a CPU has AVX512-BF16 it would compute in bfloat16, and fails where a layer is narrower than a block
        layer.support_avx512bf16_for_cpu = False
    base = load_base(saved)
    assert not any(isinstance(module, Linear4bit) for module in base.model.modules())
    assert not any(weight.requires_grad for weight in base.model.parameters())
    ids = torch.arange(24).view(2, 12)
    with torch.no_grad():
        assert torch.equal(base.model(ids).logits, quantised(ids).logits)
    assert "no block of 64 weights has more than 16 values" in held_as(base)
    exact = load_base(saved.model_copy(update={"weights": "fp32"}))
    assert not torch.allclose(base.model(ids).logits, exact.model(ids).logits, atol=1e-3)  # it is NF4 after all


@pytest.mark.skipif(torch.cuda.is_available(), reason="on CUDA the weights stay in 4 bits")
def test_the_bundled_models_rounded_weights_are_kept_and_are_the_same(saved, tiny_base, tmp_path, monkeypatch):
    monkeypatch.setenv("DEPTHSTRESS_CACHE", str(tmp_path / "cache"))
    settings = load_model("smollm2-135m")
    folder = bundled.whole_folder(
        f"{settings.name}-{settings.source.sha256[:12]}", lambda folder: bundled.keep(tiny_base.model, tiny_base.tokenizer, folder, "tiny")
    )
    rounded = load_base(saved).model.state_dict()
    for _ in range(2):  # made, then read
        base = load_base(settings)
        assert base.model.state_dict().keys() == rounded.keys()
        assert all(torch.equal(weight, rounded[name]) for name, weight in base.model.state_dict().items())
        assert base.stops == tiny_base.stops
    (kept,) = tmp_path.glob(f"cache/{folder.name}-nf4-float32-*/model.safetensors")
    kept.write_bytes(b"cut short")
    assert torch.equal(load_base(settings).model.lm_head.weight, rounded["lm_head.weight"])
