"""The answer to the study's question, in sentences that the data support."""

from __future__ import annotations

import pandas as pd

from ..intervals import Rate
from .findings import cell_rate, headline_arm


def answer(details: pd.DataFrame) -> list[str]:
    """What was found, in two or three sentences that the data support, about the arm that `headline_arm` names."""
    standard = details[details["template_shift"] == 0]
    arm = headline_arm(standard)
    if arm is None:
        return ["This run has no program on the standard requests, so it can't answer the question."]
    depths = sorted(standard.loc[standard["arm"] == arm, "depth"].unique())
    shallow, deep = depths[0], depths[-1]
    first, last = cell_rate(details, arm, shallow), cell_rate(details, arm, deep)
    learned = "It writes procedures of" if first.value >= 0.9 else "It has not fully learned procedures of"
    sentences = [
        f"{learned} {operations(shallow)} as a program: {first} run to the right value (the arm that is asked for a program only)."
    ]
    if shallow != deep:
        sentences.append(_with_depth(first, last, deep))
    if len(standard[standard["arm"] == "answer_only"]):
        sentences.append(_against_answering(details, arm, depths))
    if stepwise := _stepwise(details, standard):
        sentences.append(stepwise)
    return sentences


def _with_depth(first: Rate, last: Rate, deep: int) -> str:
    if last.high < first.low:
        return f"With {operations(deep)} that falls to {last}."
    if last.low > first.high:
        return f"With {operations(deep)} that rises to {last}."
    return f"With {operations(deep)} it is {last}, and the intervals overlap: this run does not show a loss with depth."


def _against_answering(details: pd.DataFrame, arm: str, depths: list[int]) -> str:
    """The program, executed, against the answer written directly: at the deepest depth where the intervals are apart, else at the deepest."""
    pairs = {depth: (cell_rate(details, arm, depth), cell_rate(details, "answer_only", depth)) for depth in depths}
    pairs = {depth: pair for depth, pair in pairs.items() if None not in pair}
    if not pairs:
        return "No depth was both answered directly and written as a program, so the two can't be compared."
    deepest = max(pairs)
    apart = [depth for depth, (ran, wrote) in pairs.items() if ran.low > wrote.high or wrote.low > ran.high]
    if not apart:
        ran, wrote = pairs[deepest]
        return f"Answering directly gets {wrote} with {operations(deepest)}; at no depth does this run show a difference from running the program."
    ran, wrote = pairs[apart[-1]]
    better = ran.value > wrote.value
    verdict = (
        "running the program does better than answering directly" if better else "answering directly does better than running the program"
    )
    text = f"With {operations(apart[-1])}, {verdict}: {ran} against {wrote}."
    return (
        text
        if apart[-1] == deepest
        else f"{text} At greater depths the intervals overlap, and {ran.n} tasks a depth can't tell the two apart."
    )


def _stepwise(details: pd.DataFrame, standard: pd.DataFrame) -> str:
    """One step at a time against the whole program at once, from the same adapter, at its deepest depth: the first training that has
    both, and of its stepwise arms the first that sees the kind. "" without such a pair."""
    programs = standard[(standard["format"] == "program_stack") & (standard["writer"] == "adapter")]
    for training, rows in programs.groupby("training", sort=False):
        decoded = dict(zip(rows["decoding"], rows["arm"]))
        steps = next((decoded[name] for name in ("stepwise_kind", "stepwise_value") if name in decoded), None)
        if steps and "free" in decoded:
            deep = rows.loc[rows["arm"] == steps, "depth"].max()
            stepped, whole = (cell_rate(details, name, deep) for name in (steps, decoded["free"]))
            if stepped and whole:
                apart = stepped.low > whole.high or whole.low > stepped.high
                return (
                    f"Handed the same steps one at a time, the interpreter carrying them out in between, an adapter (training “{training}”) gets {stepped} of "
                    f"procedures of {operations(deep)}; writing the whole program at once, the same adapter gets {whole}"
                    + ("." if apart else "; the intervals overlap.")
                )
    return ""


def operations(depth: int) -> str:
    return "one operation" if depth == 1 else f"{depth} operations"
