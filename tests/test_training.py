"""Training on a tiny model: what is learned from, and that stopping changes nothing."""

import json
import shutil
from contextlib import nullcontext, suppress

import pytest
import torch
from peft import LoraConfig, get_peft_model, set_peft_model_state_dict
from safetensors.torch import load_file

from depthstress import lora, packing
from depthstress.arms import Arm
from depthstress.data import make_data
from depthstress.inputs import adapter_inputs, training_rows
from depthstress.lora import FusedLora
from depthstress.models import load_base, new_adapter, trained_adapter
from depthstress.packing import packed_attention
from depthstress.prepacked import prepackable
from depthstress.progress import Progress
from depthstress.suites import Lora, load_model
from depthstress.training import (
    CHECKPOINT,
    IGNORED,
    Row,
    checkpointing,
    collate,
    encode,
    new_optimizer,
    order,
    packed_loss,
    plain_loss,
    train_adapter,
    train_adapters,
    update,
)

ARM = "program_stack"


@pytest.fixture
def ready(small_run):
    make_data(small_run, 101)
    return small_run


def texts(run, arm):
    return training_rows(run, Arm.model_validate(arm), 101)


def trained(run, base):
    with Progress("t", 5, "updates") as progress:
        train_adapter(run, base, ARM, 101, progress)
    return run.adapter(ARM, 101).folder


def row(prompt, target):
    return Row(prompt, target, (False,) * len(target))


class Stopped(BaseException):
    """Something that no handler expects, like a kill."""


def test_labels_are_the_target_and_its_end_alone(tiny_base):
    rows = [row([5, 6, 7], [8, tiny_base.eos]), row([5], [9, 10, 11, tiny_base.eos])]
    batch = collate(rows, tiny_base.eos, torch.device("cpu"))
    assert batch["input_ids"].tolist() == [[5, 6, 7, 8, tiny_base.eos], [5, 9, 10, 11, tiny_base.eos]]
    assert batch["labels"].tolist() == [[IGNORED, IGNORED, 8, tiny_base.eos, IGNORED], [9, 10, 11, tiny_base.eos, IGNORED]]
    padded = collate([row([5], [tiny_base.eos]), rows[1]], tiny_base.eos, torch.device("cpu"))
    assert padded["attention_mask"].tolist() == [[1, 1, 0, 0, 0], [1, 1, 1, 1, 1]]
    assert padded["labels"][0].tolist() == [tiny_base.eos] + [IGNORED] * 4  # the end is learned although it is the padding too


def plain(base, rows):
    """Loss a token and LoRA gradients by transformers' and peft's own forward pass, on a padded batch with all logits."""
    batch = collate(rows, base.eos, torch.device("cpu"))
    torch.manual_seed(3)
    model = get_peft_model(base.model, LoraConfig(r=8, lora_alpha=16, target_modules="all-linear", task_type="CAUSAL_LM"))
    try:
        filled(model)
        logits = model(input_ids=batch["input_ids"], attention_mask=batch["attention_mask"]).logits
        loss = torch.nn.functional.cross_entropy(logits.flatten(0, 1), batch["labels"].flatten(), ignore_index=IGNORED)
        loss.backward()
        return loss.item(), gradients(model)
    finally:
        base.model = model.unload()
        vars(base.model).pop("peft_config", None)


def filled(model):
    """Both LoRA matrices random: B starts at zero, and then A has no gradient."""
    torch.manual_seed(4)
    for name, weight in model.named_parameters():
        if "lora_" in name:
            weight.data.normal_(std=0.05)


def gradients(model):
    return {name: weight.grad.clone() for name, weight in model.named_parameters() if weight.requires_grad}


def ours(base, rows, loss, size=None):
    """The same by one of our losses, `size` rows at a time."""
    size, tokens = size or len(rows), sum(len(row.target) for row in rows)
    lora, total = Lora(r=8, alpha=16, dropout=0.0), 0.0
    with new_adapter(base, lora, 3) as model, packed_attention(base.model) if loss is packed_loss else nullcontext():
        filled(model)
        for first in range(0, len(rows), size):
            part = loss(model, rows[first : first + size], base) / tokens
            part.backward()
            total += part.item()
        return total, gradients(model)


def assert_same(one, other):
    assert one[0] == pytest.approx(other[0], rel=1e-5)
    assert one[1].keys() == other[1].keys()
    largest = max(gradient.abs().max() for gradient in one[1].values())
    for name, gradient in one[1].items():
        assert (gradient - other[1][name]).abs().max() <= 1e-5 * largest, name


@pytest.mark.parametrize("kind", ["tiny_base", "tiny_qwen3"])
@pytest.mark.parametrize("loss, size", [(packed_loss, None), (packed_loss, 1), (packed_loss, 4), (plain_loss, None)])
def test_loss_and_gradients_are_those_of_the_plain_forward_pass(ready, request, kind, loss, size):
    base = request.getfixturevalue(kind)
    rows = encode(base, texts(ready, ARM)[:8], 448)
    assert len({len(row) for row in rows}) > 4
    assert_same(plain(base, rows), ours(base, rows, loss, size))


ODD = {
    "one row": [row([5, 6, 7], [8, 9])],
    "targets of one token": [row([5, 6], [8]), row([5, 7], [8]), row([9], [8])],
    "prompts of one token": [row([5], [6, 7, 8]), row([6], [6, 7, 8]), row([5], [6, 7, 9])],
    "equal rows": [row([5, 6, 7], [8, 9])] * 3,
    "one prompt, several targets": [row([5, 6, 7], [8, 9]), row([5, 6, 7], [8, 10]), row([5, 6, 7], [11])],
    "one prompt begins another": [row([5, 6], [7, 8]), row([5, 6, 7], [8, 9]), row([5, 6, 7, 8, 9], [10])],
    "a target where another has its prompt": [row([5, 6], [7, 8, 9, 10]), row([5, 6, 7, 8], [9, 11])],
    "long beside short": [row([n % 90 + 5 for n in range(300)], [7, 8]), row([5], [6])],
}


@pytest.mark.parametrize("odd", ODD)
@pytest.mark.parametrize("size", [None, 1, 2])
def test_odd_rows_have_the_plain_loss_and_gradients(tiny_base, odd, size):
    assert_same(plain(tiny_base, ODD[odd]), ours(tiny_base, ODD[odd], packed_loss, size))


def test_attention_by_the_kernel_is_the_same(ready, tiny_base, monkeypatch):
    rows = encode(tiny_base, texts(ready, ARM)[:8], 448)
    monkeypatch.setattr(packing, "EXPLICIT", 0)
    assert_same(plain(tiny_base, rows), ours(tiny_base, rows, packed_loss))


@pytest.mark.slow
@pytest.mark.parametrize("arm", ["program_stack", "trace_stack_final"])
def test_loss_and_gradients_on_the_bundled_model(ready, arm):
    base = load_base(load_model("smollm2-135m"))
    rows = encode(base, texts(ready, arm)[:8], 448)
    reference = plain(base, rows)
    assert_same(reference, ours(base, rows, packed_loss))
    assert_same(reference, ours(base, rows, packed_loss, 3))


def test_gradient_accumulation_is_the_same_as_one_batch(ready, tiny_base):
    rows = encode(tiny_base, texts(ready, ARM)[:8], 448)
    losses = []
    for size in (8, 1):
        with new_adapter(tiny_base, ready.suite.train.lora, 3) as model:
            optimizer = new_optimizer([w for w in model.parameters() if w.requires_grad], 1e-2)
            losses.append([update(tiny_base, model, optimizer, rows, size)[0] for _ in range(3)])
    assert losses[0] == pytest.approx(losses[1], rel=1e-4)
    assert losses[0][2] < losses[0][0]


def test_dropout_trains_on_pefts_own_layers(ready, tiny_base):
    rows = encode(tiny_base, texts(ready, ARM)[:3], 448)
    losses = {}
    for dropout in (0.0, 0.5):
        lora = ready.suite.train.lora.model_copy(update={"dropout": dropout})
        with new_adapter(tiny_base, lora, 3) as model:
            assert any(isinstance(module, FusedLora) for module in model.modules()) == (dropout == 0)
            filled(model)
            model.train()
            optimizer = new_optimizer([w for w in model.parameters() if w.requires_grad], 1e-2)
            losses[dropout] = update(tiny_base, model, optimizer, rows, 3)[0]
    assert losses[0.5] != pytest.approx(losses[0.0], rel=1e-5)


def test_the_base_is_as_before_after_an_adapter(ready, tiny_base):
    lora, weights = ready.suite.train.lora, {name: weight.clone() for name, weight in tiny_base.model.named_parameters()}
    for end in (None, KeyboardInterrupt):
        with suppress(KeyboardInterrupt), new_adapter(tiny_base, lora, 3) as model:
            layers = [module for module in model.modules() if isinstance(module, FusedLora)]
            assert len(layers) == 2 * len(lora.target_modules)
            assert all(hasattr(layer.base_layer, "prepacked") == prepackable(torch.zeros(1)) for layer in layers)
            if end:
                raise end
        after = dict(tiny_base.model.named_parameters())
        assert after.keys() == weights.keys() and all(torch.equal(after[name], weight) for name, weight in weights.items())


def test_an_adapter_on_the_output_is_refused(ready, tiny_base):
    lora = ready.suite.train.lora.model_copy(update={"target_modules": ["q_proj", "lm_head"]})
    with pytest.raises(ValueError, match="lora.target_modules: lm_head makes the logits"), new_adapter(tiny_base, lora, 3):
        pass


def test_activations_computed_again_give_the_same_gradients(ready, tiny_qwen3, monkeypatch):
    rows = encode(tiny_qwen3, texts(ready, ARM)[:8], 448)
    monkeypatch.setattr("torch.cuda.mem_get_info", lambda: (1000, 1000))
    tiny_qwen3.device = torch.device("cuda")  # as far as the rule goes
    results = []
    with new_adapter(tiny_qwen3, Lora(r=8, alpha=16, dropout=0.0), 3) as model:
        filled(model)
        model.train()
        for _ in range(2):
            with packed_attention(tiny_qwen3.model), checkpointing(tiny_qwen3, rows, 4) as needed:
                tiny_qwen3.device = torch.device("cpu")
                packed_loss(model, rows, tiny_qwen3).backward()
            results.append((needed, gradients(model)))
            model.zero_grad()
    assert [needed for needed, _ in results] == [True, False]
    torch.testing.assert_close(results[0][1], results[1][1])


def test_rows_are_seen_in_whole_shuffled_passes():
    indices = order(10, 25, seed=1)
    assert sorted(indices[:10]) == sorted(indices[10:20]) == list(range(10))
    assert indices[:10] != indices[10:20] != list(range(10))
    assert indices == order(10, 25, seed=1) != order(10, 25, seed=2)


def test_a_row_that_is_too_long_names_its_example(ready, tiny_base):
    with pytest.raises(ValueError, match=r"a training row of train-s101-00000-string has \d+ tokens; max_length is 20"):
        encode(tiny_base, texts(ready, ARM), 20)


def test_the_same_run_gives_the_same_bytes(ready, tiny_base, tmp_path):
    folder = trained(ready, tiny_base)
    first = {path.name: path.read_bytes() for path in ready.adapter(ARM, 101).files()}
    assert set(first) == {"adapter_config.json", "adapter_model.safetensors", "provenance.json", "training_log.csv"}
    shutil.rmtree(folder)
    trained(ready, tiny_base)
    assert first == {path.name: path.read_bytes() for path in ready.adapter(ARM, 101).files()}


@pytest.mark.parametrize("stop_at", [1, 3, 4])
def test_stopped_and_continued_gives_the_same_bytes(ready, tiny_base, monkeypatch, stop_at):
    folder = trained(ready, tiny_base)
    first = {path.name: path.read_bytes() for path in ready.adapter(ARM, 101).files()}
    shutil.rmtree(folder)
    updates = []
    from depthstress import training

    real = training.update

    def stopping(*arguments):
        if len(updates) == stop_at:
            raise Stopped
        updates.append(1)
        return real(*arguments)

    monkeypatch.setattr(training, "update", stopping)
    with pytest.raises(Stopped):
        trained(ready, tiny_base)
    monkeypatch.setattr(training, "update", real)
    assert (folder / CHECKPOINT).exists() == (stop_at >= 2)
    assert not ready.adapter(ARM, 101).is_done(adapter_inputs(ready, ARM, 101))
    trained(ready, tiny_base)
    assert first == {path.name: path.read_bytes() for path in ready.adapter(ARM, 101).files()}
    assert not (folder / CHECKPOINT).exists()


def test_every_adapter_is_trained_once_on_one_base(ready, tiny_base, monkeypatch):
    train_adapters(ready, tiny_base)
    assert all(ready.adapter(*key).is_done(adapter_inputs(ready, *key)) for key in ready.adapters)
    assert not any("lora" in name for name, _ in tiny_base.model.named_parameters())
    monkeypatch.setattr("depthstress.training.new_adapter", None)  # would fail if anything were trained again
    train_adapters(ready, tiny_base)


def test_weights_are_laid_out_once_for_all_adapters(ready, tiny_base, monkeypatch):
    laid = []
    monkeypatch.setattr("depthstress.lora._prepack", lambda layer, prepack=lora._prepack: (laid.append(layer), prepack(layer)))
    train_adapters(ready, tiny_base)
    assert len(ready.adapters) > 1
    assert len(laid) == (2 * len(ready.suite.train.lora.target_modules) if prepackable(torch.zeros(1)) else 0)
    assert all(layer.weight.numel() and not hasattr(layer, "prepacked") for layer in laid)


def test_adapters_do_not_depend_on_what_was_trained_before(ready, tiny_base):
    train_adapters(ready, tiny_base)
    together = (ready.adapter(ARM, 101).folder / "adapter_model.safetensors").read_bytes()
    shutil.rmtree(ready.folder / "adapters")
    alone = trained(ready, tiny_base)
    assert (alone / "adapter_model.safetensors").read_bytes() == together


def test_an_adapter_is_plain_peft_and_names_no_path(ready, tiny_base):
    folder = trained(ready, tiny_base)
    config = json.loads((folder / "adapter_config.json").read_text())
    assert config["base_model_name_or_path"] == "SmolLM2-135M-Instruct"
    assert config["target_modules"] == sorted(config["target_modules"])
    weights = load_file(folder / "adapter_model.safetensors")
    assert any(weight.abs().sum() > 0 for name, weight in weights.items() if "lora_B" in name)
    ids = torch.tensor([[1, 2, 3]])
    before = tiny_base.model(ids).logits
    with new_adapter(tiny_base, ready.suite.train.lora, 3) as model:  # as it was trained
        set_peft_model_state_dict(model, weights)
        ours = model(ids).logits
    with trained_adapter(tiny_base, folder) as model:
        assert not any(isinstance(module, FusedLora) for module in model.modules())
        assert torch.allclose(model(ids).logits, ours, atol=1e-6)
        assert not torch.allclose(model(ids).logits, before)
    assert torch.equal(tiny_base.model(ids).logits, before)


def test_other_settings_set_an_adapter_aside(ready, tiny_base):
    trained(ready, tiny_base)
    ready.suite = ready.suite.model_copy(update={"train": ready.suite.train.model_copy(update={"lr": 1e-3})})
    trained(ready, tiny_base)
    assert (ready.folder / "stale" / "adapters-program_stack-s101-1" / "adapter_model.safetensors").exists()


def test_shuffled_targets_are_the_same_texts_under_other_prompts(ready):
    shuffled = ready.suite.train.model_copy(update={"targets": "shuffled"})
    own = texts(ready, ARM)
    ready.suite = ready.suite.model_copy(update={"train": shuffled})
    moved = texts(ready, ARM)
    assert [row[:2] for row in moved] == [row[:2] for row in own]
    assert sorted(row[2] for row in moved) == sorted(row[2] for row in own)
    assert sum(a[2] != b[2] for a, b in zip(own, moved)) > len(own) / 2
    assert texts(ready, ARM) == moved


def test_a_premature_end_is_punished_only_where_lines_remain(tiny_base):
    one, two = (encode(tiny_base, [("x", "ab", target)], 99) for target in ("PUSH 1\n", "PUSH 1\nADD 2\n"))
    with new_adapter(tiny_base, Lora(r=4, alpha=8, dropout=0.0), 1) as model, packed_attention(model.get_base_model()):
        assert packed_loss(model, one, tiny_base, 1.0) == packed_loss(model, one, tiny_base)
        assert packed_loss(model, two, tiny_base, 1.0) > packed_loss(model, two, tiny_base)
