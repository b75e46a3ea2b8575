"""What make bench counts and writes; nothing is timed here."""

import json

import pytest
from transformers import LlamaConfig

from benchmarks.arithmetic import tokens_and_pairs, update_flops
from benchmarks.profile import group
from benchmarks.results import RATIOS, SHARES, Results, compose, latest, summary
from benchmarks.table import BARS, BEGIN, END, rewrite, table
from depthstress.training import Row

ALL = ["q_proj", "k_proj", "v_proj", "o_proj", "gate_proj", "up_proj", "down_proj"]
SAMPLES = {
    "train": [
        {
            "seconds": 1.75, "trl_seconds": trl, "trl_labelled_seconds": 3.0, "flops": 100, "square_rate": 100.0, "model_rate": 80.0, "prepacked_rate": 125.0,
            "layout_seconds": 0.5, "updates": 12, "updates_a_layout": 24,
            "loss_difference": 1e-5, "shares": {"products": 0.6, "moving": 0.1, "elementwise": 0.2, "autograd": 0.04, "outside": 0.06},
        }
        for trl in (3.0, 4.0, 8.0)
    ],
    "eval": [
        {
            "prompts": 96, "seconds": 9.0, "loading": 4.0, "adapters_a_load": 4, "published_seconds": 55.0, "published_loading": 5.0,
            "published_differing": 1, "as_is_seconds": 25.0, "as_is_loading": 5.0, "as_is_differing": 6,
            "lm_eval_seconds": 18.0, "lm_eval_batch": 32, "lm_eval_differing": 0,
        }
    ],
    "local": [{"seconds": 630.0, "peak_bytes": 2**31}],
    "around": [
        {"score_per_second": 60_000.0, "score_first_per_second": 30_000.0, "data_seconds": 20.0, "load_seconds": 0.5, "import_01_data_seconds": 1.0,
         "import_study_seconds": 0.2, **{f"analysis_{rows}_{what}": rows / 2e4 for rows in (1_000, 10_000, 100_000, 1_000_000) for what in ("seconds", "peak_gib")}}
    ],
    "limits": [{"square_rate": 1e11, "model_rate": 9e10, "prepacked_rate": 1.2e11, "bandwidth": 3e10}],
}  # fmt: skip
MACHINE = {"processor": "a processor", "cores": 2, "memory_gib": 23.4, "gpus": []}


def record(samples=SAMPLES):
    return compose({"commit": "0123456789abcdef", "machine": MACHINE}, "2026-01-02", samples, None)


def test_the_arithmetic_of_a_small_config_by_hand():
    config = LlamaConfig(
        hidden_size=4, intermediate_size=6, num_hidden_layers=3, num_attention_heads=2, num_key_value_heads=1, head_dim=2, vocab_size=10
    )
    rows = [Row([1, 2, 3], [4, 0]), Row([1, 2, 5], [0])]
    # computed: 1, 12, 123, 1234 of the first row (the end is only predicted), 125 of the second
    assert tokens_and_pairs(rows) == (5, 1 + 2 + 3 + 4 + 3)
    parameters = 4 * 4 + 2 * 4 * 2 + 4 * 4 + 3 * 4 * 6  # q, k and v, o, the MLP
    lora = 2 * (8 + 6 + 6 + 8 + 3 * 10)  # rank x (inputs + outputs)
    attention = 12 * 4 * 13  # 2 heads of 2
    labels = 4 * 4 * 10 * 3
    assert update_flops(config, rows, 2, ALL) == 3 * (5 * (4 * parameters + 6 * lora) + attention) + labels


def test_equal_rows_need_computing_once():
    row = Row([1, 2], [3, 0])
    assert tokens_and_pairs([row, row]) == tokens_and_pairs([row]) == (3, 6)


def test_figures_are_medians_of_the_ratios_within_a_repetition():
    flat = summary(SAMPLES)
    assert (flat["train_vs_trl"], flat["train_vs_trl_min"], flat["train_vs_trl_max"], flat["train_vs_trl_n"]) == (2.0, 1.5, 4.0, 3)
    assert flat["train_gemm_share"] == 0.4  # 100 in 1.75 s and half of 0.5 s, of 125 a second
    assert flat["train_torch_share"] == 0.5  # of 100 a second
    assert flat["limit_prepacked_gflops"] == 120
    assert flat["eval_vs_published"] == 6.0  # 60 s against 9 s and a quarter of a loading of 4 s
    assert flat["eval_vs_lm_eval"] == 2.0
    assert flat["local_minutes"] == 10.5 and flat["local_peak_gib"] == 2.0
    assert set(flat) == {name + end for name in RATIOS for end in ("", "_min", "_max", "_n")}
    assert {bar.name for bar in BARS} <= set(flat)


def test_an_interrupted_run_goes_on_and_another_commits_samples_are_put_aside(tmp_path):
    path = tmp_path / "partial.json"
    first = Results(path, {"commit": "a"}, 3)
    first.add("limits", {"square_rate": 1.0})
    again = Results(path, {"commit": "a"}, 3)
    assert list(again.missing("limits")) == [1, 2] and list(again.missing("train")) == [0, 1, 2]
    assert list(Results(path, {"commit": "b"}, 3).missing("limits")) == [0, 1, 2]
    assert json.loads((tmp_path / "partial.old.json").read_text())["about"] == {"commit": "a"}


def test_the_table_says_what_was_missed_and_what_was_not_measured():
    lines = {bar.name: next(line for line in table(record()).splitlines() if bar.says in line) for bar in BARS}
    assert "2x (1.5x to 4x, n 3)" in lines["train_vs_trl"]
    for bar in BARS:
        reached = record()[bar.name] <= bar.bar if bar.at_most else record()[bar.name] >= bar.bar
        assert lines[bar.name].endswith("| reached |" if reached else "| **missed** |")
    assert table(record()).startswith("Measured on a processor, 2 cores, 23 GiB, 2026-01-02 at commit 0123456. Medians")
    assert "1 differ" in table(record())
    assert "in bfloat16, 6 texts differ and ours is 3x as fast" in table(record())
    assert "gives 60% to matrix products" in table(record()) and "would be 5x as fast as TRL, so that 3x takes 60% of that rate" in table(
        record()
    )
    partly = table(record({"local": SAMPLES["local"]}))
    assert partly.count("not measured") == len(BARS) - 2


def test_parts_measured_anew_leave_the_others_as_they_were_and_the_table_says_so(tmp_path):
    faster = {"around": [SAMPLES["around"][0] | {"load_seconds": 0.25}]}
    both = compose({"commit": "fedcba9876543210", "machine": MACHINE}, "2026-02-03", faster, record())
    assert both["load_seconds"] == 0.25 and both["train_vs_trl"] == record()["train_vs_trl"]
    assert {part for part, when in both["measured"].items() if when["commit"].startswith("fed")} == {"around"}
    first = table(both).splitlines()[0]
    assert "training, evaluation, suite local: 2026-01-02 at commit 0123456; " in first
    assert "scoring, data, analysis and start-up: 2026-02-03 at commit fedcba9. Medians" in first
    elsewhere = compose({"commit": "fedcba9876543210", "machine": MACHINE | {"cores": 64}}, "2026-02-03", faster, record())
    assert "train_vs_trl" not in elsewhere and set(elsewhere["measured"]) == {"around"}
    assert latest(tmp_path) is None
    for name in ("2026-01-02", "2026-02-03", "quick"):
        (tmp_path / f"{name}.json").write_text(json.dumps({"of": name}))
    assert latest(tmp_path) == {"of": "2026-02-03"}


@pytest.mark.parametrize(
    ("operator", "expected"),
    [("aten::addmm_", "products"), ("aten::cat", "moving"), ("aten::silu", "elementwise"), ("_RmsNorm", "autograd")],
)
def test_an_operators_time_counts_in_its_group(operator, expected):
    assert group(operator) == expected and expected in SHARES


def test_the_table_replaces_what_is_between_the_comments_and_nothing_else(tmp_path):
    readme = tmp_path / "README.md"
    readme.write_text(f"before\n{BEGIN}\nold\n{END}\nafter\n")
    rewrite(readme, record())
    once = readme.read_text()
    assert once.startswith(f"before\n{BEGIN}\n") and once.endswith(f"{END}\nafter\n") and "old" not in once
    rewrite(readme, record())
    assert readme.read_text() == once
    readme.write_text("nothing here\n")
    with pytest.raises(ValueError, match="README.md: needs the lines"):
        rewrite(readme, record())


def test_the_projects_readme_has_a_place_for_the_table():
    from depthstress.suites import ROOT

    text = (ROOT / "README.md").read_text(encoding="utf-8")
    assert text.count(BEGIN) == text.count(END) == 1
