"""The base model and its adapters in memory: loaded once, adapters put on and taken off.

transformers and peft are imported where they are used: they take seconds, and what is checked before should not wait for them.
"""

from __future__ import annotations

import json
import logging
import warnings
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from functools import cached_property
from importlib.metadata import version
from pathlib import Path
from typing import TYPE_CHECKING

import torch
from safetensors.torch import save

from .bundled import keep, local_folder, whole_folder
from .files import write_bytes, write_json
from .inputs import WEIGHTS
from .prepacked import Prepacked
from .suites import ROOT, Lora, Model

if TYPE_CHECKING:
    from peft import PeftModel
    from transformers import BitsAndBytesConfig

# peft asks transformers for a property by its old name, at every adapter
warnings.filterwarnings("ignore", message="`is_gradient_checkpointing` is deprecated", category=FutureWarning)

logging.getLogger("transformers.integrations.bitsandbytes").setLevel(logging.ERROR)  # it warns of the dtype that we ask for
logging.getLogger("bitsandbytes.backends.cpu.ops").setLevel(logging.ERROR)  # it misses a kernel that dequantised weights do not need

ADAPTER_NAME = "default"
NF4_BLOCK = 64  # weights that share a scale


class NeedsCuda(RuntimeError):
    """The model is meant for a GPU and this machine has none."""


@dataclass
class Base:
    """A base model on its device, its tokenizer, and every token that ends a generation."""

    settings: Model
    model: torch.nn.Module
    tokenizer: object
    device: torch.device
    stops: tuple[int, ...]

    @cached_property
    def project(self) -> Callable[[torch.Tensor], torch.Tensor]:
        """Logits of hidden states by the frozen head, where everything is in fp32 on a prepacked copy of its weight; the way
        back is on the plain one."""
        head = self.model.get_output_embeddings()
        return Prepacked(head.weight, head.bias) if self.in_fp32 else head

    @property
    def in_fp32(self) -> bool:
        """Whether weights and computations are all in fp32."""
        return self.settings.compute == "float32" and self.model.dtype == torch.float32 and not getattr(self.model, "is_quantized", False)

    @property
    def eos(self) -> int:
        """The token that training teaches as the end of a target."""
        return self.tokenizer.eos_token_id

    def tokens(self, text: str) -> list[int]:
        """Token ids without special tokens: a prompt and a target are encoded apart and joined, so that
        training and generation see the same prompt tokens."""
        return self.tokenizer(text, add_special_tokens=False).input_ids


def check_hardware(model: Model) -> None:
    """Raises NeedsCuda, with what to run instead, where the model needs a GPU and there is none."""
    if model.needs_cuda and not torch.cuda.is_available():
        raise NeedsCuda(
            f"{model.title} (params/models/{model.name}.yaml) needs an NVIDIA GPU that this torch can use; torch {torch.__version__} "
            "finds none here. On this machine run the bundled model instead: `make study`, or `-p suite local`, "
            "or `-p model smollm2-135m` with this suite."
        )


def load_base(settings: Model) -> Base:
    """Load a base model, frozen, in the weights' format that its yaml asks for.

    On a CPU the NF4 weights are held dequantised, in the dtype of `compute`: the very values that bitsandbytes'
    layers compute with, once instead of in every product; for the bundled model they are kept in the cache. On CUDA
    they stay in 4 bits.
    """
    check_hardware(settings)
    from transformers import AutoModelForCausalLM, AutoTokenizer
    from transformers.utils import logging as transformers_logging

    transformers_logging.disable_progress_bar()
    where = _where(settings)
    device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
    compute = getattr(torch, settings.compute)
    if settings.weights == "nf4" and device.type == "cpu":
        model = _dequantised(settings, where, compute)
    else:
        dtype = {"nf4": compute, "bf16": torch.bfloat16, "fp32": torch.float32}[settings.weights]
        options = {"quantization_config": _nf4(compute)} if settings.weights == "nf4" else {}
        options |= {"disable_mmap": True} if device.type == "cpu" else {}
        model = AutoModelForCausalLM.from_pretrained(**where, dtype=dtype, **options, device_map={"": device.type})
    model.requires_grad_(False)
    model.eval()
    tokenizer = AutoTokenizer.from_pretrained(**where)
    return Base(settings, model, tokenizer, device, _stops(model, tokenizer))


def _nf4(compute: torch.dtype) -> BitsAndBytesConfig:
    """QLoRA's format (Dettmers et al., 2023): 4-bit NormalFloat, double quantisation."""
    from transformers import BitsAndBytesConfig

    return BitsAndBytesConfig(load_in_4bit=True, bnb_4bit_quant_type="nf4", bnb_4bit_use_double_quant=True, bnb_4bit_compute_dtype=compute)


def _dequantised(settings: Model, where: dict[str, str], compute: torch.dtype):
    """The model on the CPU, its weights rounded to NF4 and back. That takes seconds, so the bundled one's are kept."""
    from transformers import AutoModelForCausalLM, AutoTokenizer

    def rounded():
        model = AutoModelForCausalLM.from_pretrained(**where, dtype=compute, quantization_config=_nf4(compute), device_map={"": "cpu"})
        return model.dequantize(compute)

    if not settings.source.wheel:
        return rounded()
    name = f"{Path(where['pretrained_model_name_or_path']).name}-nf4-{settings.compute}-bitsandbytes-{version('bitsandbytes')}"
    folder = whole_folder(name, lambda folder: keep(rounded(), AutoTokenizer.from_pretrained(**where), folder, settings.title))
    # read, not mapped: mapped weights stay in memory while training holds them prepacked
    return AutoModelForCausalLM.from_pretrained(folder, dtype=compute, device_map={"": "cpu"}, disable_mmap=True)


def held_as(base: Base) -> str:
    """A linear layer as it is held, in words; of one that was rounded to NF4 and back, what shows it."""
    layer = next(module for module in base.model.modules() if isinstance(module, torch.nn.Linear))
    if base.settings.weights != "nf4" or type(layer) is not torch.nn.Linear:
        return str(layer)
    most = max(len(block.unique()) for block in layer.weight.reshape(-1, NF4_BLOCK))
    return f"{layer}, rounded to NF4: no block of {NF4_BLOCK} weights has more than {most} values"


def _where(settings: Model) -> dict[str, str]:
    if settings.source.wheel:
        return {"pretrained_model_name_or_path": str(local_folder(settings))}
    if (ROOT / settings.source.hub).is_dir():  # a local folder, absolute or from the project's root, whatever the working directory
        return {"pretrained_model_name_or_path": str(ROOT / settings.source.hub)}
    return {"pretrained_model_name_or_path": settings.source.hub, "revision": settings.source.revision or "main"}


def _stops(model, tokenizer) -> tuple[int, ...]:
    """The tokenizer's end token and the generation config's: they can differ, and either must end a text."""
    configured = model.generation_config.eos_token_id
    configured = configured if isinstance(configured, list) else [configured]
    return tuple(sorted({token for token in [tokenizer.eos_token_id, *configured] if token is not None}))


@contextmanager
def new_adapter(base: Base, lora: Lora, seed: int) -> Iterator[PeftModel]:
    """A fresh LoRA adapter on the base, its first weights drawn from the seed; taken off again at the end.

    Its layers are peft's own under dropout, on 4-bit weights and in bf16; else `FusedLora`, which computes the same, on
    weights that are laid out for it.
    """
    from peft import LoraConfig, get_peft_model

    torch.manual_seed(seed)
    config = LoraConfig(
        r=lora.r,
        lora_alpha=lora.alpha,
        lora_dropout=lora.dropout,
        target_modules=lora.target_modules,
        task_type="CAUSAL_LM",
    )
    output = base.model.get_output_embeddings()
    if name := next((name for name, layer in _targets(base, lora).items() if layer is output), None):
        raise ValueError(f"lora.target_modules: {name} makes the logits, and the loss needs it frozen; leave it out")
    if _fused(base, lora):
        from .lora import FusedLora

        config._register_custom_module({torch.nn.Linear: FusedLora})  # the same layer to peft; never part of what is saved
    with laid_out(base, lora):
        model = get_peft_model(base.model, config)
        try:
            trainable = [name for name, weight in model.named_parameters() if weight.requires_grad]
            if not trainable or any("lora_" not in name for name in trainable):
                raise RuntimeError(f"expected LoRA weights alone to be trainable, found {trainable[:3]}")
            yield model
        finally:
            _take_off(base, model)


@contextmanager
def laid_out(base: Base, lora: Lora) -> Iterator[None]:
    """The base with the weights that such an adapter is trained on prepacked, where they can be: around several adapters,
    this is done once for all. Meanwhile these weights can't be read."""
    with ExitStack() as stack:
        if _fused(base, lora):
            from .lora import prepacked

            stack.enter_context(prepacked([layer for layer in _targets(base, lora).values() if isinstance(layer, torch.nn.Linear)]))
        yield


def _targets(base: Base, lora: Lora) -> dict[str, torch.nn.Module]:
    """The layers that such an adapter is put on, by name: a target is, as to peft, a name or the end of one."""
    endings = tuple(f".{name}" for name in lora.target_modules)
    return {name: layer for name, layer in base.model.named_modules() if f".{name}".endswith(endings)}


def _fused(base: Base, lora: Lora) -> bool:
    return base.in_fp32 and not lora.dropout


@contextmanager
def trained_adapter(base: Base, folder: Path) -> Iterator[PeftModel]:
    """The adapter in a folder, on the base it was trained on; taken off again at the end."""
    from peft import PeftModel

    model = PeftModel.from_pretrained(base.model, folder, local_files_only=True)
    model.eval()
    try:
        yield model
    finally:
        _take_off(base, model)


def _take_off(base: Base, model: PeftModel) -> None:
    base.model = model.unload()
    vars(base.model).pop("peft_config", None)  # or the next adapter warns of a second one
    base.model.eval()


def save_adapter(model: PeftModel, folder: Path, settings: Model) -> None:
    """Write the adapter as peft reads it: safetensors and its config, the same bytes for the same weights."""
    from peft import get_peft_model_state_dict

    weights = {
        name: weight.detach().cpu().contiguous() for name, weight in get_peft_model_state_dict(model, save_embedding_layers=False).items()
    }
    write_bytes(folder / WEIGHTS, save(dict(sorted(weights.items())), metadata={"format": "pt"}))
    config = model.peft_config[ADAPTER_NAME].to_dict()
    config["target_modules"] = sorted(config["target_modules"])  # a set, in no fixed order
    config["inference_mode"] = True
    config["base_model_name_or_path"] = settings.source.hub or settings.title  # never this machine's cache folder
    write_json(folder / "adapter_config.json", json.loads(json.dumps(config, default=str)))
