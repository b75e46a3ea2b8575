"""Suites and models: as published, and errors that name the file and the field."""

import pytest

from depthstress.suites import PARAMS, SettingsError, Suite, load_model, load_suite


@pytest.mark.parametrize("name", [path.stem for path in (PARAMS / "suites").glob("*.yaml")])
def test_every_suite_loads_with_its_model(name):
    assert load_model(load_suite(name).model)


def test_main_is_the_published_configuration():
    main, model = load_suite("main"), load_model("qwen3-4b")
    train = main.train
    assert main.seeds == [101, 202, 303, 404, 505]
    assert main.arm_names == ["answer_only", "trace_stack_final", "trace_stack_no_final", "program_stack"]
    assert (train.examples, train.updates, train.batch_size, train.grad_accum, train.lr) == (180, 32, 2, 2, 2e-4)
    assert (train.max_length, train.lora.r, train.lora.alpha, train.lora.dropout) == (448, 8, 16, 0.05)
    assert (train.depths, train.primitives) == ([1], "published")
    assert (main.evaluation.per_split, main.evaluation.max_new_tokens, main.evaluation.batch_size) == (12, 96, 4)
    assert [(s.name, s.depth, s.wording) for s in main.splits] == [
        ("eval_indist_d1", 1, "standard"), ("eval_comp_d2", 2, "standard"), ("eval_comp_d3", 3, "standard"), ("eval_comp_d4", 4, "standard"),
        ("eval_comp_d6", 6, "standard"), ("eval_template_d2", 2, "held_out"), ("eval_template_d4", 4, "held_out"), ("eval_template_d6", 6, "held_out"),
    ]  # fmt: skip
    assert (model.source.hub, model.weights, model.compute) == ("Qwen/Qwen3-4B", "nf4", "bfloat16")
    assert train.lora.target_modules == ["q_proj", "k_proj", "v_proj", "o_proj", "gate_proj", "up_proj", "down_proj"]


def test_pilot_is_the_published_configuration():
    pilot = load_suite("pilot")
    assert (pilot.seeds, pilot.train.examples, pilot.train.updates, pilot.evaluation.per_split) == ([101], 120, 20, 12)


def written(tmp_path, old, new):
    text = (PARAMS / "suites" / "smoke.yaml").read_text()
    assert old in text
    (tmp_path / "smoke.yaml").write_text(text.replace(old, new, 1))
    return tmp_path


def test_a_learning_rate_in_scientific_notation_is_a_number(tmp_path):
    assert load_suite("smoke", written(tmp_path, "lr: 5e-4", "lr: 2e-4")).train.lr == 2e-4


@pytest.mark.parametrize(("old", "new", "message"), [
    ("lr: 5e-4", "lr: fast", r"smoke.yaml: train.lr: Input should be a valid number \(it is 'fast'\)"),
    ("lr: 5e-4", "learning_rate: 5e-4", "train.learning_rate: Extra inputs are not permitted"),
    ("seeds: [101]", "seeds: 101", "seeds: Input should be a valid list"),
    ("seeds: [101]", "seeds: ['101']", "seeds.0: Input should be a valid integer"),
    ("seeds: [101]", "seeds: [101, 101]", "seeds: something stands twice"),
    ("depths: [1]", "depths: [0]", "train.depths.0: Input should be greater than or equal to 1"),
    ("depths: [1]", "depths: [1000000]", "train.depths.0: Input should be less than or equal to 64"),
    ("seeds: [101]", "seeds: [4294967296]", "seeds.0: Input should be less than"),
    ("lr: 5e-4", "lr: .inf", "train.lr: Input should be less than or equal to 1"),
    ("name: eval_indist_d1", "name: '2'", "splits.0.name: String should match pattern"),
    ("seeds: [101]", "seeds: " + "[" * 3000 + "]" * 3000, "no valid YAML"),
    ("updates: 2", "updates: 0", "train.updates: Input should be greater than or equal to 1"),
    ("updates: 2", "updates: yes", "train.updates: Input should be a valid integer"),
    ("- program_stack\n", "- program_heap\n", "arms.3: Value error, unknown format 'program_heap'; there are answer_only"),
    ("training: full", "training: fuller", r"arms.5 \(full_stepwise_kind\): no training 'fuller'; there are default, full"),
    ("full: {primitives: full}", "full: {primitives: all}", "trainings.full.primitives: Input should be 'published' or 'full'"),
    ("full: {primitives: full}", "full: {updats: 3}", "trainings.full.updats: Extra inputs are not permitted"),
    ("full: {primitives: full}", "default: {primitives: full}", "'default' is the suite's own train"),
    ("depths: [1]", "depths: [2]", "train.depths: family table finds no procedure of depth 2 with the published primitives"),
    ("depth: 4, wording: standard", "depth: 4, wording: standard, primitives: published", "splits.2: family table finds no procedure of depth 4"),
    ("max_new_tokens: 16", "max_new_tokens: 16\n  gold_ratio: 2.0", "give either max_new_tokens or gold_ratio"),
    ("- {name: oracle, format: program_stack, writer: oracle}", "- {name: program_stack, format: program_stack, writer: oracle}", "arms: something stands twice"),
    ("depth: 1", "depth: one", "splits.0.depth"),
    ("wording: held_out", "wording: rephrased", "splits.3.wording: Input should be 'standard', 'varied' or 'held_out'"),
    ("primitives: published ", "primitives: some ", "train.primitives"),
    ("name: smoke", "name: smog", "name is 'smog', but the file is called smoke.yaml"),
    ("seeds:", "seeds: [1]\nseeds:", "no valid YAML"),
    ("lr: 5e-4", "lr: [", "no valid YAML"),
])  # fmt: skip
def test_what_is_wrong_is_named(tmp_path, old, new, message):
    with pytest.raises(SettingsError, match=message):
        load_suite("smoke", written(tmp_path, old, new))


def test_an_unknown_suite_or_model_lists_what_there_is():
    with pytest.raises(SettingsError, match="no suite 'mian'; params/suites/ has local, local_full, main, pilot, smoke"):
        load_suite("mian")
    with pytest.raises(SettingsError, match="no model '../x'; params/models/ has qwen3-4b, smollm2-135m"):
        load_model("../x")


def test_a_model_needs_one_source(tmp_path):
    text = (PARAMS / "models" / "qwen3-4b.yaml").read_text()
    (tmp_path / "qwen3-4b.yaml").write_text(text.replace("hub: Qwen/Qwen3-4B", "wheel: x==1"))
    with pytest.raises(SettingsError, match="source: .*wheel needs member"):
        load_model("qwen3-4b", tmp_path)


def test_the_order_of_trainings_and_their_fields_is_not_that_of_the_file():
    """A manifest keeps another, and has to give the same data and report."""
    suite = load_suite("local_full")
    turned = {name: dict(reversed(changes.items())) for name, changes in reversed(suite.trainings.items())}
    again = Suite.model_validate(suite.model_dump() | {"trainings": turned})
    assert str(again.trainings) == str(suite.trainings)
    assert list(again.train_splits) == list(suite.train_splits)
