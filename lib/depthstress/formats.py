"""An arm's format: what is asked of the model, what the target looks like, and how the output is read.

The arms differ only in what the model must write (the published run's four). Prompts are plain text, the
same in training and evaluation: no chat template, so that no model adds thinking blocks of its own. As in the
published run a target ends with a line break, so that whether to stop is decided at the start of a line.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable
from dataclasses import dataclass

from .tasks.base import Example


@dataclass(frozen=True)
class Arm:
    """One output format. `reads_program`: the primary score executes the instructions that were written;
    otherwise it compares the written answer."""

    name: str
    title: str
    instruction: str
    reads_program: bool
    target: Callable[[Example], str]

    def prompt(self, example: Example) -> str:
        """All that the model sees before it writes; every prompt of an arm begins with the same words."""
        return f"{self.instruction}\n\n{example.request}\n\nOutput:\n"


def prompt_sha256(prompt: str) -> str:
    """The hash that ties a generation to its prompt."""
    return hashlib.sha256(prompt.encode()).hexdigest()


def _numbered(example: Example) -> str:
    return "".join(f"STEP {n}: {line}\n" for n, line in enumerate(example.program.split("\n"), 1))


ARMS: dict[str, Arm] = {
    arm.name: arm
    for arm in (
        Arm(
            "answer_only",
            "Answer only",
            "Carry out the procedure and write its result.",
            False,
            lambda example: f"FINAL: {example.answer}\n",
        ),
        Arm(
            "trace_stack_final",
            "Numbered program, with answer",
            "Write the procedure as numbered stack instructions, then its result.",
            True,
            lambda example: f"{_numbered(example)}FINAL {example.answer}\n",
        ),
        Arm("trace_stack_no_final", "Numbered program", "Write the procedure as numbered stack instructions.", True, _numbered),
        Arm("program_stack", "Program", "Write the procedure as stack instructions.", True, lambda example: f"{example.program}\n"),
    )
}
