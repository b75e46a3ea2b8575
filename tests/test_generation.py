"""Generation on a tiny model: what is kept, and that stopping changes nothing (the texts themselves: test_engines)."""

import shutil

import pandas as pd
import pytest
import torch

from depthstress.analysis import PARTIAL, analyse, checked_texts, load_tables, read_rows, score_run, score_texts
from depthstress.arms import Arm
from depthstress.data import make_data
from depthstress.engines import Text
from depthstress.engines.hf import HfEngine
from depthstress.generation import GROUP, evaluate_arms, groups
from depthstress.inputs import WEIGHTS, adapter_needed, generation_inputs
from depthstress.interpreter import parse
from depthstress.opcodes import OPCODES
from depthstress.runs import Run
from depthstress.training import train_adapters
from depthstress.units import MissingInput

ARM = "program_stack"


@pytest.fixture
def ready(small_run, tiny_base):
    make_data(small_run, 101)
    train_adapters(small_run, tiny_base)
    return small_run


def test_groups_come_as_soon_as_they_are_full():
    taken = []
    made = groups((taken.append(n) or n for n in range(5)), 2)
    assert next(made) == [0, 1] == taken
    assert list(made) == [[2, 3], [4]]
    assert list(groups([], 2)) == []


def generated(run):
    return {path.parent.name: path.read_bytes() for path in (run.folder / "generations").rglob("generations.jsonl")}


def test_stopped_and_continued_gives_the_same_bytes(ready, tiny_base, monkeypatch):
    evaluate_arms(ready, tiny_base)
    first = generated(ready)
    assert set(first) == {"answer_only-s101", "program_stack-s101"}
    shutil.rmtree(ready.folder / "generations")
    real = HfEngine.generate

    def stopping(self, requests):
        for n, pair in enumerate(real(self, requests)):
            if n == GROUP + 1:
                raise KeyboardInterrupt
            yield pair

    monkeypatch.setattr(HfEngine, "generate", stopping)
    with pytest.raises(KeyboardInterrupt):
        evaluate_arms(ready, tiny_base)
    monkeypatch.setattr(HfEngine, "generate", real)
    partial = ready.generations("answer_only", 101).folder / PARTIAL
    assert len(partial.read_text().splitlines()) == GROUP
    with partial.open("a") as file:
        file.write('{"example_id": "eval_indist')  # torn by a kill in the middle of a line
    evaluate_arms(ready, tiny_base)
    assert generated(ready) == first
    assert not partial.exists()


def test_what_is_done_is_not_generated_again(ready, tiny_base, monkeypatch):
    evaluate_arms(ready, tiny_base)
    monkeypatch.setattr(HfEngine, "generate", None)
    evaluate_arms(ready, tiny_base)


def test_generations_without_a_marker_are_not_taken_for_ours(ready, tiny_base):
    """As in a fresh clone, which has the committed texts of another machine's adapters but no markers."""
    evaluate_arms(ready, tiny_base)
    first = generated(ready)
    for folder in (ready.folder / "generations").iterdir():
        (folder / "done.json").unlink()
        texts = (folder / "generations.jsonl").read_text()
        (folder / "generations.jsonl").write_text(texts.replace('"text": "', '"text": "SOMEBODY ELSE\'S '))
    evaluate_arms(ready, tiny_base)
    assert generated(ready) == first


def test_a_limit_leaves_the_rest_for_later(ready, tiny_base, monkeypatch):
    evaluate_arms(ready, tiny_base, limit=2)
    assert len(read_rows(ready.generations(ARM, 101).folder)) == 4
    tables = analyse(ready)
    assert list(tables.completeness["generations"]) == [4, 4]
    assert list(tables.completeness["expected"]) == [12, 12]
    evaluate_arms(ready, tiny_base)
    limited = generated(ready)
    shutil.rmtree(ready.folder / "generations")
    evaluate_arms(ready, tiny_base)
    assert generated(ready) == limited


def test_the_published_models_architecture_goes_the_same_way(small_run, tiny_qwen3):
    make_data(small_run, 101)
    train_adapters(small_run, tiny_qwen3)
    evaluate_arms(small_run, tiny_qwen3)
    tables = analyse(small_run)
    assert len(tables.details) == 24
    assert tables.training_log.groupby("adapter")["loss"].last().lt(tables.training_log.groupby("adapter")["loss"].first()).all()


def test_a_missing_adapter_names_the_command(small_run, tiny_base):
    make_data(small_run, 101)
    with pytest.raises(MissingInput, match="(?s)no adapter for answer_only, seed 101: .*missing.*papermill 02_train.ipynb -p suite smoke"):
        evaluate_arms(small_run, tiny_base)


def test_a_changed_adapter_makes_generations_stale(ready, tiny_base):
    evaluate_arms(ready, tiny_base)
    before = generation_inputs(ready, ARM, 101)
    ready.suite = ready.suite.model_copy(update={"evaluation": ready.suite.evaluation.model_copy(update={"max_new_tokens": 9})})
    assert generation_inputs(ready, ARM, 101) != before
    evaluate_arms(ready, tiny_base)
    assert (ready.folder / "stale" / "generations-program_stack-s101-1").exists()


def test_a_damaged_adapter_is_not_used(ready, tiny_base):
    (ready.adapter(ARM, 101).folder / "adapter_model.safetensors").write_bytes(b"")
    with pytest.raises(MissingInput, match="adapter_model.safetensors was changed"):
        evaluate_arms(ready, tiny_base)


def test_generations_stand_without_the_weights_that_wrote_them(ready, tiny_base, monkeypatch):
    """As in a clone that has a study's generations, but not its adapters' weights."""
    evaluate_arms(ready, tiny_base)
    first, tables = generated(ready), analyse(ready)
    for key in ready.adapters:
        (ready.adapter(*key).folder / WEIGHTS).unlink()
    with monkeypatch.context() as patched:
        patched.setattr("depthstress.training.train_adapter", None)
        patched.setattr(HfEngine, "generate", None)
        train_adapters(ready, tiny_base)
        evaluate_arms(ready, tiny_base)
    pd.testing.assert_frame_equal(analyse(ready).checkpoints, tables.checkpoints)
    shutil.rmtree(ready.generations(ARM, 101).folder)
    with pytest.raises(MissingInput, match=f"no adapter for {ARM}, seed 101: .*{WEIGHTS} is missing"):
        evaluate_arms(ready, tiny_base)
    assert [adapter for adapter, seed in ready.adapters if adapter_needed(ready, adapter, seed)] == [ARM]
    train_adapters(ready, tiny_base)
    evaluate_arms(ready, tiny_base)
    assert generated(ready) == first


def test_tables_read_back_as_they_were_written(ready, tiny_base):
    evaluate_arms(ready, tiny_base)
    made, read = analyse(ready), load_tables(ready)
    for name in ("metrics", "summary", "coverage", "training_log", "checkpoints", "completeness"):
        assert list(getattr(read, name)) == list(getattr(made, name)), name
        assert len(getattr(read, name)) == len(getattr(made, name)), name
    assert list(read.details["generated"]) == list(made.details["generated"])
    assert list(read.details["answer"]) == list(made.details["answer"])


def test_a_generation_of_another_prompt_is_refused(ready, tiny_base):
    evaluate_arms(ready, tiny_base)
    texts = checked_texts(ready)
    texts[ARM, 101][3]["prompt_sha256"] = "0" * 64
    with pytest.raises(ValueError, match=f"the generation of {texts[ARM, 101][3]['example_id']} was made from another prompt"):
        score_texts(ready, texts)


def test_generations_that_are_damaged_unmarked_or_of_other_settings_are_not_analysed(ready, tiny_base):
    evaluate_arms(ready, tiny_base)
    analyse(ready)
    path = ready.generations(ARM, 101).folder / "generations.jsonl"
    content = path.read_text()
    path.write_text(content.replace("eos", "limit").replace("limit", "eos", 1))
    for work in (analyse, load_tables):
        with pytest.raises(MissingInput, match="(?s)program_stack-s101: generations.jsonl was changed.*papermill 03_eval"):
            work(ready)
    path.write_text(content)
    assert load_tables(ready)
    marker = path.parent / "done.json"
    marked = marker.read_text()
    marker.unlink()
    with pytest.raises(MissingInput, match="it is not marked as done"):
        analyse(ready)
    marker.write_text(marked)
    ready.suite = ready.suite.model_copy(update={"evaluation": ready.suite.evaluation.model_copy(update={"max_new_tokens": 9})})
    for work in (analyse, load_tables):
        with pytest.raises(MissingInput, match="it was made with other settings"):
            work(ready)


def test_an_analysis_that_was_edited_is_not_reported(ready, tiny_base):
    evaluate_arms(ready, tiny_base)
    analyse(ready)
    path = ready.folder / "analysis" / "summary.csv"
    path.write_text(path.read_text().replace("0.0", "0.9"))
    with pytest.raises(MissingInput, match="(?s)analysis: summary.csv was changed.*papermill 04_analysis"):
        load_tables(ready)


def test_a_part_of_a_run_says_what_is_missing(ready, tiny_base):
    evaluate_arms(ready, tiny_base)
    part = Run(ready.suite, ready.model, arms=[ARM], outputs=ready.folder.parent)
    analyse(part)
    tables = load_tables(ready)
    assert set(tables.details["arm"]) == {ARM}
    assert dict(zip(tables.completeness["arm"], tables.completeness["generations"])) == {"answer_only": 0, ARM: 12}


@pytest.mark.parametrize("odd", ["PUSH 1\rPUSH 2", 'quote " comma , line\nbreak', "NA", "007", "", "\u2028", "=1+1", "\0"])
def test_odd_texts_survive_the_tables(ready, tiny_base, monkeypatch, odd):
    monkeypatch.setattr(HfEngine, "generate", lambda self, requests: ((n, Text(odd, "eos", 1)) for n in range(len(requests))))
    evaluate_arms(ready, tiny_base)
    analyse(ready)
    assert list(load_tables(ready).details["generated"]) == [odd] * 24


def test_no_generations_names_the_command(small_run):
    make_data(small_run, 101)
    with pytest.raises(MissingInput, match="papermill 03_eval.ipynb"):
        analyse(small_run)
    with pytest.raises(MissingInput, match="papermill 04_analysis.ipynb"):
        load_tables(small_run)


def test_a_gpu_model_without_a_gpu_says_what_to_run_instead(monkeypatch):
    from depthstress.models import NeedsCuda, load_base
    from depthstress.suites import load_model

    monkeypatch.setattr(torch.cuda, "is_available", lambda: False)
    with pytest.raises(NeedsCuda, match="Qwen3-4B .*needs an NVIDIA GPU.*make study"):
        load_base(load_model("qwen3-4b"))


ARMS = (
    "program_stack",
    {"name": "constrained", "format": "program_stack", "decoding": "constrained"},
    {"name": "steps", "format": "program_stack", "decoding": "stepwise", "stepwise": {"sees": "kind", "constrained": True, "retries": 1}},
    {"name": "next", "format": "next_instruction", "decoding": "stepwise"},
    {"name": "four_shot", "format": "program_stack", "writer": "base", "shots": 4},
    {"name": "random", "format": "program_stack", "writer": "random"},
    {"name": "oracle", "format": "program_stack", "writer": "oracle"},
)


@pytest.fixture
def every_kind(small_run, tiny_base):
    """A run with an arm of every writer and decoding, trained."""
    small_run.suite = small_run.suite.model_copy(update={"arms": [Arm.model_validate(arm) for arm in ARMS]})
    run = Run(small_run.suite, small_run.model, outputs=small_run.folder.parent)
    tiny_base.tokenizer.chat_template = "{% for message in messages %}<{{ message.content }}>{% endfor %}"
    make_data(run, 101)
    train_adapters(run, tiny_base)
    return run


def test_every_kind_of_arm_is_generated_and_scored(every_kind, tiny_base):
    assert [name for name, _ in every_kind.adapters] == ["program_stack", "next_instruction"]  # decodings share one
    evaluate_arms(every_kind, tiny_base)
    details = score_run(every_kind).set_index("arm")
    assert (details.loc["oracle", "primary_correct"] == 1).all() and (details.loc["oracle", "exact_program"] == 1).all()
    assert details.loc["random", "length"].isin(["exact", "over"]).all()  # over: a load more than gold, to operate on
    assert details.loc["constrained", "end"].isin(["eos", "limit"]).all()
    for text in details.loc["constrained", "generated"]:
        assert all(instruction.opcode in OPCODES for instruction in parse(text)), text
    steps = read_rows(every_kind.generations("steps", 101).folder)
    assert all(row["steps"] and (row["end"] == "eos") == (row["failure"] is None) for row in steps)
    assert any(len(row["steps"]) > 1 and row["failure"] for row in steps)  # asked again, once, and still wrong
    assert {row["end"] for row in read_rows(every_kind.generations("next", 101).folder)} <= {"eos", "failed", "limit"}


def test_a_stopped_loop_asks_nothing_twice(every_kind, tiny_base, monkeypatch):
    arm = "steps"
    run = Run(every_kind.suite, every_kind.model, arms=[arm], outputs=every_kind.folder.parent)
    evaluate_arms(run, tiny_base)
    first = generated(run)
    shutil.rmtree(run.folder / "generations")
    asked, real = [], HfEngine.generate

    def noting(self, requests, most=10**9):
        for n, pair in enumerate(real(self, requests)):
            if n == most:
                raise KeyboardInterrupt
            asked.append((requests[pair[0]].prompt, requests[pair[0]].seed))
            yield pair

    monkeypatch.setattr(HfEngine, "generate", lambda self, requests: noting(self, requests, GROUP + 1))
    with pytest.raises(KeyboardInterrupt):
        evaluate_arms(run, tiny_base)
    kept = set(asked[:GROUP])
    asked.clear()
    monkeypatch.setattr(HfEngine, "generate", noting)
    evaluate_arms(run, tiny_base)
    assert generated(run) == first
    assert not kept & set(asked)
