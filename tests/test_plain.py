"""The statistics as text: every table is there, and what can't be estimated is said and not shown as a number."""

import numpy as np
import pandas as pd

from depthstress.plain import statistics_text


def test_every_part_is_shown_and_what_is_missing_stays_empty():
    seed, depth, example = np.indices((2, 2, 6)).reshape(3, -1)
    tasks = pd.DataFrame({"seed": seed, "depth": depth + 1, "example_id": example + 10 * depth, "split": np.where(depth, "deep", "flat"), "template_shift": 0,
                          "coverage": 1, "gold_instructions": depth + 2, "primary_correct": example % 2})  # fmt: skip
    programs = tasks.assign(
        arm="program", length="exact", exec_correct=tasks["primary_correct"], first_divergence=np.where(example % 2, np.nan, 2)
    )
    answers = tasks.assign(arm="answer", length="", exec_correct=0, first_divergence=np.nan, primary_correct=0)
    text = statistics_text(pd.concat([answers, programs], ignore_index=True))
    lines = [" ".join(line.split()) for line in text.splitlines()]
    assert "standard 1 50.0% (12)" in lines  # nothing beside it: no task lacks an opcode
    assert "2 50% (25% to 75%) 50% (25% to 75%)" in lines
    assert any(line.startswith("coverage an opcode never trained") and line.endswith("no: it is the same in every row") for line in lines)
    assert "deep +50.0, p 0.062" in lines  # 6 to 0: 2^-5, times 2
    assert "nan" not in text and "inf" not in text
