"""The figures beside their bars, as a table between two comments of README.md."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from depthstress.files import write_text

PARTS = {"train": "training", "eval": "evaluation", "around": "scoring, data, analysis and start-up", "local": "suite local"}
BEGIN, END = "<!-- benchmarks: written by make bench -->", "<!-- end of benchmarks -->"


@dataclass(frozen=True)
class Bar:
    """A figure of the table, the value that it should reach (or stay under), and how it is written."""

    name: str
    says: str
    bar: float
    unit: str = ""
    at_most: bool = False

    def reached(self, value: float) -> bool:
        return value <= self.bar if self.at_most else value >= self.bar

    def shown(self, value: float) -> str:
        return f"{value:.0%}" if self.unit == "%" else f"{value:,.0f}{self.unit}" if value >= 1000 else f"{value:.3g}{self.unit}"


AGAINST_TRL = Bar("train_vs_trl", "training, times as fast as TRL's SFTTrainer on the same batches", 3.0, "x")
BARS = (
    AGAINST_TRL,
    Bar("train_gemm_share", "training, share of the machine's fp32 matrix product rate that does needed arithmetic", 0.7, "%"),
    Bar("eval_vs_published", "evaluating an adapter, times as fast as the published recipe", 5.0, "x"),
    Bar("eval_vs_lm_eval", "evaluating an adapter, times as fast as lm-evaluation-harness at its best batch size", 2.0, "x"),
    Bar("local_minutes", "suite local from nothing to its report", 8.0, " min", at_most=True),
    Bar("local_peak_gib", "memory of suite local's largest process", 3.0, " GiB", at_most=True),
    Bar("score_per_second", "programs scored a second on one core", 50_000),
    Bar("data_100k_seconds", "100,000 examples generated", 30, " s", at_most=True),
    Bar("analysis_1000000_seconds", "analysis of 1,000,000 scored generations", 60, " s", at_most=True),
    Bar("analysis_1000000_peak_gib", "its memory", 2.0, " GiB", at_most=True),
    Bar("load_seconds", "loading the converted model", 3, " s", at_most=True),
    Bar("import_seconds", "imports of the slowest notebook", 5, " s", at_most=True),
)


def table(record: dict) -> str:
    """A record's figures as Markdown: a row a bar, bars that were missed or not measured said plainly."""
    machine = record["machine"]
    where = f"{machine['processor']}, {machine['cores']} cores, {machine['memory_gib']:.0f} GiB" + "".join(
        f", {gpu}" for gpu in machine["gpus"]
    )
    rows = "\n".join(_row(bar, record) for bar in BARS)
    return (
        f"Measured on {where}, {_when(record)}. Medians, least to greatest, number of repetitions; every ratio within one run.\n\n"
        f"| | measured | bar | |\n|---|---|---|---|\n{rows}\n{_notes(record)}"
    )


def _when(record: dict) -> str:
    """Date and commit, part by part where they differ."""
    parts: dict[str, list[str]] = {}
    for part, said in PARTS.items():
        if one := record["measured"].get(part):
            parts.setdefault(f"{one['date']} at commit {one['commit'][:7]}", []).append(said)
    return next(iter(parts)) if len(parts) == 1 else "; ".join(f"{', '.join(said)}: {when}" for when, said in parts.items())


def _row(bar: Bar, record: dict) -> str:
    target = f"{'at most' if bar.at_most else 'at least'} {bar.shown(bar.bar)}"
    if bar.name not in record:
        return f"| {bar.says} | not measured | {target} | |"
    value, least, greatest = (bar.shown(record[bar.name + end]) for end in ("", "_min", "_max"))
    verdict = "reached" if bar.reached(record[bar.name]) else "**missed**"
    return f"| {bar.says} | {value} ({least} to {greatest}, n {record[bar.name + '_n']}) | {target} | {verdict} |"


def _notes(record: dict) -> str:
    """What the ratios rest on: that the work was the same."""
    notes = []
    if "train_loss_difference_max" in record:
        notes.append(
            f"TRL's loss differs from ours by {record['train_loss_difference_max']:.1g} at most in any update; let it skip positions without a "
            f"label, as it does on a GPU alone, and training is {record['train_vs_trl_labelled']:.3g}x as fast."
        )
    if "train_torch_share" in record:
        notes.append(
            f"The machine's rate is the fastest measured of torch's product of large squares, its products at the model's shapes, and these "
            f"on prepacked weights; of the first alone, which a plain loop is held to, the share is {record['train_torch_share']:.0%}."
        )
    if "train_share_products" in record:
        notes.append(
            f"Of an update's time torch's profiler gives {record['train_share_products']:.0%} to matrix products, "
            f"{record['train_share_elementwise']:.0%} to elementwise operations, {record['train_share_moving']:.0%} to moving values, "
            f"{record['train_share_autograd']:.0%} to the own code of autograd and of the written-out gradients, and {record['train_share_outside']:.0%} lies outside any "
            f"operator. The floor: the needed arithmetic alone, at the machine's rate, would be {record['train_floor_vs_trl']:.3g}x as fast "
            f"as TRL, so that {AGAINST_TRL.shown(AGAINST_TRL.bar)} takes {AGAINST_TRL.bar / record['train_floor_vs_trl']:.0%} of that rate."
        )
    if "eval_published_differing_max" in record:
        notes.append(
            f"Of {record['eval_prompts']:.0f} texts at most {record['eval_published_differing_max']:.0f} differ from the published recipe's and "
            f"{record['eval_lm_eval_differing_max']:.0f} from lm-evaluation-harness' (batch size {record['eval_lm_eval_batch']:.0f})."
        )
    if record.get("eval_as_is_differing_max"):
        notes.append(
            f"The published recipe is held to fp32, as it was asked to compute; as bitsandbytes computes here by itself, in bfloat16, "
            f"{record['eval_as_is_differing_max']:.0f} texts differ and ours is {record['eval_vs_as_is']:.3g}x as fast."
        )
    return f"\n{' '.join(notes)}\n" if notes else ""


def rewrite(readme: Path, record: dict) -> None:
    """Put the table between the two comments. Raises ValueError where README.md does not have each of them once, in order."""
    text = readme.read_text(encoding="utf-8")
    if text.count(BEGIN) != 1 or text.count(END) != 1 or text.index(BEGIN) > text.index(END):
        raise ValueError(f"{readme.name}: needs the lines {BEGIN!r} and {END!r}, once each and in this order")
    before, rest = text.split(BEGIN)
    write_text(readme, f"{before}{BEGIN}\n{table(record)}{END}{rest.split(END)[1]}")
