"""What was measured: samples written as they are made, and their summary.

A sample holds all sides of one repetition, so a ratio never mixes repetitions. The partial file lets an interrupted run
go on; it belongs to one commit, one machine and one mode, and is put aside when any of them is another.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from pathlib import Path
from statistics import median

from depthstress.files import write_json
from depthstress.suites import ROOT

FOLDER = ROOT / "outputs" / "bench"
PARTS = ("limits", "train", "eval", "around", "local")
ROWS = (1_000, 10_000, 100_000, 1_000_000)  # of the analysis: its cost has to grow as they do
SHARES = ("products", "moving", "elementwise", "autograd", "outside")  # of an update's time, by torch's profiler


def _training(sample: dict) -> float:
    """Seconds of our updates, with their share of laying the frozen weights out and back."""
    return sample["seconds"] + sample["layout_seconds"] * sample["updates"] / sample["updates_a_layout"]


def _rate(sample: dict) -> float:
    """The machine's rate of fp32 matrix products: the fastest that was measured beside the sample."""
    return max(sample[f"{kind}_rate"] for kind in ("square", "model", "prepacked"))


RATIOS: dict[str, tuple[str, Callable[[dict], float]]] = {
    "train_vs_trl": ("train", lambda s: s["trl_seconds"] / _training(s)),
    "train_vs_trl_labelled": ("train", lambda s: s["trl_labelled_seconds"] / _training(s)),
    "train_gemm_share": ("train", lambda s: s["flops"] / _training(s) / _rate(s)),
    "train_torch_share": ("train", lambda s: s["flops"] / _training(s) / s["square_rate"]),
    "train_floor_vs_trl": ("train", lambda s: s["trl_seconds"] * _rate(s) / s["flops"]),
    **{f"train_share_{name}": ("train", lambda s, name=name: s["shares"][name]) for name in SHARES},
    "train_loss_difference": ("train", lambda s: s["loss_difference"]),
    **{
        f"eval_vs_{peer}": (
            "eval",
            lambda s, peer=peer: (s[f"{peer}_seconds"] + s[f"{peer}_loading"]) / (s["seconds"] + s["loading"] / s["adapters_a_load"]),
        )
        for peer in ("published", "as_is")
    },
    "eval_vs_lm_eval": ("eval", lambda s: s["lm_eval_seconds"] / s["seconds"]),
    "eval_prompts": ("eval", lambda s: s["prompts"]),
    "eval_published_differing": ("eval", lambda s: s["published_differing"]),
    "eval_as_is_differing": ("eval", lambda s: s["as_is_differing"]),
    "eval_lm_eval_differing": ("eval", lambda s: s["lm_eval_differing"]),
    "eval_lm_eval_batch": ("eval", lambda s: s["lm_eval_batch"]),
    "local_minutes": ("local", lambda s: s["seconds"] / 60),
    "local_peak_gib": ("local", lambda s: s["peak_bytes"] / 2**30),
    "score_per_second": ("around", lambda s: s["score_per_second"]),
    "score_first_per_second": ("around", lambda s: s["score_first_per_second"]),
    "data_100k_seconds": ("around", lambda s: s["data_seconds"]),
    **{
        f"analysis_{rows}_{what}": ("around", lambda s, key=f"analysis_{rows}_{what}": s[key])
        for rows in ROWS
        for what in ("seconds", "peak_gib")
    },
    "load_seconds": ("around", lambda s: s["load_seconds"]),
    "import_seconds": ("around", lambda s: max(value for key, value in s.items() if key.startswith("import_"))),
    "limit_square_gflops": ("limits", lambda s: s["square_rate"] / 1e9),
    "limit_model_gflops": ("limits", lambda s: s["model_rate"] / 1e9),
    "limit_prepacked_gflops": ("limits", lambda s: s["prepacked_rate"] / 1e9),
    "limit_bandwidth_gbs": ("limits", lambda s: s["bandwidth"] / 1e9),
}  # a figure's name: the part that it comes from, and how from one sample


class Results:
    """The samples of a run, in a file: {"about": ..., "samples": {part: [sample, ...]}}."""

    def __init__(self, path: Path, about: dict, repetitions: int) -> None:
        self.path, self.about, self.repetitions = path, about, repetitions
        self.samples: dict[str, list[dict]] = {}
        if path.exists():
            kept = json.loads(path.read_text(encoding="utf-8"))
            if kept["about"] == json.loads(json.dumps(about)):
                self.samples = kept["samples"]
            else:
                path.replace(path.with_suffix(".old.json"))
                print(f"{path.name} is of another commit, machine or mode; put aside", flush=True)

    def missing(self, part: str, repetitions: int | None = None) -> Iterator[int]:
        """The numbers of the repetitions that a part still has to measure."""
        yield from range(len(self.samples.get(part, [])), repetitions or self.repetitions)

    def add(self, part: str, sample: dict) -> None:
        """Keep a sample, and write all there are."""
        self.samples.setdefault(part, []).append(sample)
        write_json(self.path, {"about": self.about, "samples": self.samples})
        print(
            f"{part}: " + ", ".join(f"{key} {value:.4g}" if isinstance(value, float) else f"{key} {value}" for key, value in sample.items())
        )


def summary(samples: dict[str, list[dict]]) -> dict[str, float]:
    """Flat figures of the parts that were measured: a median each, with `_min`, `_max` and `_n` beside it."""
    flat = {}
    for name, (part, figure) in RATIOS.items():
        if values := [figure(sample) for sample in samples.get(part, [])]:
            flat |= {name: median(values), f"{name}_min": min(values), f"{name}_max": max(values), f"{name}_n": len(values)}
    return flat


def latest(folder: Path = FOLDER) -> dict | None:
    """The newest record; None without one."""
    records = sorted(folder.glob("[0-9]*.json"))
    return json.loads(records[-1].read_text(encoding="utf-8")) if records else None


def compose(about: dict, day: str, samples: dict[str, list[dict]], before: dict | None) -> dict:
    """The record: figures of what was measured, and of the other parts those of the record before it, if that is of the same
    machine. `measured` says of each part when, and at which commit."""
    figures = {}
    measured = {part: {"date": day, "commit": about["commit"]} for part in samples}
    if before and before["machine"] == json.loads(json.dumps(about["machine"])):
        measured = before["measured"] | measured
        ends = ("", "_min", "_max", "_n")
        names = [name + end for name, (part, _) in RATIOS.items() if part not in samples for end in ends]
        figures = {name: before[name] for name in names if name in before}
    return about | {"date": day, "measured": measured} | figures | summary(samples)
