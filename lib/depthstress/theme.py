"""One visual language for the study: an arm has the same colour and marker everywhere.

Colours are Okabe and Ito's, which colour-blind readers can tell apart; markers and line styles say the same again.
"""

from __future__ import annotations

import io
from contextlib import contextmanager

import matplotlib.pyplot as plt
import seaborn as sns

FORMAT_LOOKS = {
    "answer_only": ("#d55e00", "X"),
    "trace_stack_final": ("#0072b2", "s"),
    "trace_stack_no_final": ("#56b4e9", "D"),
    "program_stack": ("#009e73", "o"),
    "state_trace": ("#7570b3", "h"),
    "next_instruction": ("#a6761d", "P"),
}
DECODING_LOOKS = {
    "constrained": ("#cc79a7", "^"),
    "stepwise_value": ("#e69f00", "v"),
    "stepwise_kind": ("#000000", "*"),
    "stepwise_kind_constrained": ("#882255", "p"),
}
FAILURE_COLOURS = {
    "correct_exact": "#009e73",
    "correct_semantic_variant": "#7fd1b4",
    "wrong_constant_or_argument": "#f0e442",
    "wrong_op_order_or_choice": "#e69f00",
    "invalid_or_unexecutable": "#d55e00",
    "empty_or_no_program": "#999999",
}
FAILURE_WORDS = {
    "correct_exact": "right, the gold instructions",
    "correct_semantic_variant": "right, other instructions",
    "wrong_constant_or_argument": "wrong value, other operands",
    "wrong_op_order_or_choice": "wrong value, other instructions",
    "invalid_or_unexecutable": "no value: invalid",
    "empty_or_no_program": "no instructions",
}
GREY = "#555555"
OTHER_LOOK = (GREY, "d")


def look(format: str, decoding: str) -> tuple[str, str]:
    """An arm's colour and marker: its format's, or for text that was not decoded freely its decoding's."""
    if decoding == "free" or format == "next_instruction":
        return FORMAT_LOOKS[format]
    return DECODING_LOOKS.get(decoding, OTHER_LOOK)


def adapter_looks(adapters: list[tuple[str, str]]) -> dict[tuple[str, str], tuple[str, str, str]]:
    """Colour, marker and line style of each adapter (format, training): the format's look for the first of a format, others dashed,
    in colours that none has yet."""
    spare = iter(sns.color_palette("husl", max(len(adapters), 1)))
    looks, seen = {}, set()
    for form, training in adapters:
        colour, marker = look(form, "free")
        looks[form, training] = (next(spare), marker, "--") if form in seen else (colour, marker, "-")
        seen.add(form)
    return looks


SETTINGS = {
    "svg.hashsalt": "depthstress", "svg.fonttype": "path", "font.size": 10, "axes.titlesize": 11, "axes.titleweight": "bold",
    "axes.titlelocation": "left", "axes.spines.top": False, "axes.spines.right": False, "legend.frameon": False,
    "figure.facecolor": "white", "grid.color": "#e5e5e5",
}  # fmt: skip


@contextmanager
def theme():
    """Draw inside this: seaborn's theme with our settings."""
    with sns.axes_style("whitegrid"), plt.rc_context(SETTINGS):
        yield


def svg(figure) -> str:
    """A figure as SVG text, without a date or random ids, so that the same data give the same bytes."""
    buffer = io.StringIO()
    with plt.rc_context(SETTINGS):
        figure.savefig(buffer, format="svg", bbox_inches="tight", metadata={"Date": None, "Creator": None})
    text = buffer.getvalue()
    return text[text.index("<svg") :]
