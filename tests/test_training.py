"""Training on a tiny model: what is learned from, and that stopping changes nothing."""

import json
import shutil

import pytest
import torch
from safetensors.torch import load_file

from depthstress.data import make_data
from depthstress.formats import ARMS
from depthstress.inputs import TRAIN, adapter_inputs
from depthstress.models import new_adapter, trained_adapter
from depthstress.progress import Progress
from depthstress.training import (
    CHECKPOINT,
    IGNORED,
    Row,
    collate,
    encode,
    order,
    target_loss,
    train_adapter,
    train_adapters,
)

ARM = "program_stack"


@pytest.fixture
def ready(small_run):
    make_data(small_run, 101)
    return small_run


def trained(run, base):
    with Progress("t", 5, "updates") as progress:
        train_adapter(run, base, ARM, 101, progress)
    return run.adapter(ARM, 101).folder


class Stopped(BaseException):
    """Something that no handler expects, like a kill."""


def test_labels_are_the_target_and_its_end_alone(tiny_base):
    rows = [Row([5, 6, 7], [8, tiny_base.eos]), Row([5], [9, 10, 11, tiny_base.eos])]
    batch = collate(rows, tiny_base.eos, torch.device("cpu"))
    assert batch["input_ids"].tolist() == [[5, 6, 7, 8, tiny_base.eos], [5, 9, 10, 11, tiny_base.eos]]
    assert batch["labels"].tolist() == [[IGNORED, IGNORED, 8, tiny_base.eos, IGNORED], [9, 10, 11, tiny_base.eos, IGNORED]]
    padded = collate([Row([5], [tiny_base.eos]), rows[1]], tiny_base.eos, torch.device("cpu"))
    assert padded["attention_mask"].tolist() == [[1, 1, 0, 0, 0], [1, 1, 1, 1, 1]]
    assert padded["labels"][0].tolist() == [tiny_base.eos] + [IGNORED] * 4  # the end is learned although it is the padding too


def test_the_loss_is_that_of_the_plain_forward_pass(ready, tiny_base):
    rows = encode(tiny_base, ARMS[ARM], ready.examples(TRAIN, 101)[:4], 448)
    batch = collate(rows, tiny_base.eos, torch.device("cpu"))
    with new_adapter(tiny_base, ready.suite.train.lora, 3) as model:
        ours = target_loss(model, batch)
        logits = model(input_ids=batch["input_ids"], attention_mask=batch["attention_mask"]).logits
        plain = torch.nn.functional.cross_entropy(logits.flatten(0, 1), batch["labels"].flatten(), ignore_index=IGNORED, reduction="sum")
        assert ours.item() == pytest.approx(plain.item(), rel=1e-5)


def test_gradient_accumulation_is_the_same_as_one_batch(ready, tiny_base):
    from depthstress.training import _update

    rows = encode(tiny_base, ARMS[ARM], ready.examples(TRAIN, 101)[:6], 448)
    losses = []
    for size in (6, 2):
        with new_adapter(tiny_base, ready.suite.train.lora, 3) as model:
            weights = [w for w in model.parameters() if w.requires_grad]
            optimizer = torch.optim.AdamW(weights, lr=1e-2)
            losses.append([_update(tiny_base, model, optimizer, weights, rows, size)[0] for _ in range(3)])
    assert losses[0] == pytest.approx(losses[1], rel=1e-4)
    assert losses[0][2] < losses[0][0]


def test_rows_are_seen_in_whole_shuffled_passes():
    indices = order(10, 25, seed=1)
    assert sorted(indices[:10]) == sorted(indices[10:20]) == list(range(10))
    assert indices[:10] != indices[10:20] != list(range(10))
    assert indices == order(10, 25, seed=1) != order(10, 25, seed=2)


def test_a_row_that_is_too_long_names_its_example(ready, tiny_base):
    with pytest.raises(ValueError, match=r"train-s101-00000-string has \d+ tokens for arm program_stack; train.max_length is 20"):
        encode(tiny_base, ARMS[ARM], ready.examples(TRAIN, 101), 20)


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

    real = training._update

    def stopping(*arguments):
        if len(updates) == stop_at:
            raise Stopped
        updates.append(1)
        return real(*arguments)

    monkeypatch.setattr(training, "_update", stopping)
    with pytest.raises(Stopped):
        trained(ready, tiny_base)
    monkeypatch.setattr(training, "_update", real)
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
    before = tiny_base.model(torch.tensor([[1, 2, 3]])).logits
    with trained_adapter(tiny_base, folder) as model:
        assert not torch.allclose(model(torch.tensor([[1, 2, 3]])).logits, before)
    assert torch.equal(tiny_base.model(torch.tensor([[1, 2, 3]])).logits, before)


def test_other_settings_set_an_adapter_aside(ready, tiny_base):
    trained(ready, tiny_base)
    ready.suite = ready.suite.model_copy(update={"train": ready.suite.train.model_copy(update={"lr": 1e-3})})
    trained(ready, tiny_base)
    assert (ready.folder / "stale" / "adapters-program_stack-s101-1" / "adapter_model.safetensors").exists()
