"""Figures of the published run, to stand beside ours.

Source: "Qwen Trace Procedure Depth Stress", Eric Florenzano, 2026-06-26, repository
`ericflo/small-model-experimentation`, commit `ebba8bfe`, folder
`experiments/qwen_trace_procedure_depth_stress/runs/main_v1`, Apache License 2.0. `summary.csv` holds rows of its
`summary_by_arm.csv` (suite main, rounded to 6 digits); `coverage.csv` is `tables.coverage` of its 1,920
generations as `depthstress.rescore` scores them.
"""

from __future__ import annotations

from pathlib import Path

import pandas as pd

CITATION = "Qwen Trace Procedure Depth Stress, E. Florenzano, 2026-06-26, run main_v1 (Qwen/Qwen3-4B, 5 seeds, 1,920 generations)"


def published_summary() -> pd.DataFrame:
    """One row an arm and split: means and sample standard deviations over seeds."""
    return pd.read_csv(Path(__file__).parent / "summary.csv")


def published_coverage() -> pd.DataFrame:
    """Executed accuracy of the program arms by whether every opcode was trainable (see `tables.coverage`)."""
    return pd.read_csv(Path(__file__).parent / "coverage.csv", dtype={"depth": str})
