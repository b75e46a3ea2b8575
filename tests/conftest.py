"""Shared fixtures: a run in a temporary folder, a tiny model, the published records where they are."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from depthstress.arms import Arm
from depthstress.runs import Run
from depthstress.suites import ROOT, load_model, load_suite

PUBLISHED = ROOT.parent / "shared" / "published" / "main_v1"
COMMITTED = ROOT / "outputs" / "local"
FULL = ROOT / "outputs" / "local_full"


@pytest.fixture
def published() -> Path:
    """The published run's raw records, which are not part of the project."""
    if not PUBLISHED.is_dir():
        pytest.skip("the published run's raw records are not beside the project (../shared/published/main_v1)")
    return PUBLISHED


@pytest.fixture
def run(tmp_path) -> Run:
    """Suite smoke, in a temporary folder."""
    return Run("smoke", outputs=tmp_path / "outputs")


@pytest.fixture
def small_run(tmp_path) -> Run:
    """Suite smoke with two arms and small numbers, for the tiny model: fp32, CPU."""
    suite = load_suite("smoke")
    train = suite.train.model_copy(update={"examples": 12, "updates": 5, "batch_size": 3, "checkpoint_every": 2, "lr": 5e-3})
    suite = suite.model_copy(update={
        "arms": [Arm.model_validate(name) for name in ("answer_only", "program_stack")], "train": train, "splits": suite.splits[:2],
        "evaluation": suite.evaluation.model_copy(update={"batch_size": 5, "max_new_tokens": 8}),
    })  # fmt: skip
    model = load_model("smollm2-135m").model_copy(update={"weights": "fp32"})
    return Run(suite, model, outputs=tmp_path / "outputs")


def byte_tokenizer():
    """A tokenizer with a token for every byte and an end token."""
    from tokenizers import Tokenizer, decoders, pre_tokenizers
    from tokenizers.models import BPE
    from transformers import PreTrainedTokenizerFast

    letters = sorted(pre_tokenizers.ByteLevel.alphabet())
    tokenizer = Tokenizer(BPE({letter: n for n, letter in enumerate([*letters, "<end>"])}, []))
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    tokenizer.decoder = decoders.ByteLevel()
    return PreTrainedTokenizerFast(tokenizer_object=tokenizer, eos_token="<end>")


@pytest.fixture(scope="session", name="byte_tokenizer")
def byte_tokenizer_fixture():
    """The tokenizer of the tiny models."""
    return byte_tokenizer()


def tiny(settings, config_class, model_class):
    """A model of two layers with random weights and a byte tokenizer, as `models.load_base` would return it."""
    import torch

    from depthstress.models import Base

    tokenizer = byte_tokenizer()
    torch.manual_seed(0)
    config = config_class(
        vocab_size=len(tokenizer), hidden_size=32, intermediate_size=64, num_hidden_layers=2, num_attention_heads=4, head_dim=8,
        num_key_value_heads=2, eos_token_id=tokenizer.eos_token_id, pad_token_id=tokenizer.eos_token_id,
    )  # fmt: skip
    model = model_class(config).requires_grad_(False).eval()
    return Base(settings, model, tokenizer, torch.device("cpu"), (tokenizer.eos_token_id,))


@pytest.fixture
def tiny_base(small_run):
    """A tiny Llama, the bundled model's architecture."""
    from transformers import LlamaConfig, LlamaForCausalLM

    return tiny(small_run.model, LlamaConfig, LlamaForCausalLM)


@pytest.fixture
def tiny_qwen3(small_run):
    """A tiny Qwen3, the published model's architecture."""
    from transformers import Qwen3Config, Qwen3ForCausalLM

    return tiny(small_run.model, Qwen3Config, Qwen3ForCausalLM)


@pytest.fixture
def chromium() -> str:
    """Debian's chromium."""
    path = shutil.which("chromium")
    if path is None:
        pytest.skip("chromium is not installed (Debian: apt install chromium)")
    return path
