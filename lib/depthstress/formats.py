"""A format: what is asked of the model, what the target looks like, and how the text is read.

Prompts are plain text, the same in training and evaluation: no chat template, so that no model adds thinking blocks
of its own. As in the published run a target ends with a line break, so that whether to stop is decided at the
start of a line.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterator
from dataclasses import dataclass

from .opcodes import reference_card
from .tasks.base import Example

STATE = "= "  # how a line begins that holds the value after an instruction
END = "END"  # what next_instruction writes when no step is left


def _same(text: str) -> str:
    return text


@dataclass(frozen=True)
class Format:
    """One output format.

    reads_program: the primary score executes the instructions that were written; otherwise it compares the
    written answer. read: the part of a text that holds the instructions. answers: the final answers written in a
    text, the first one counts (None: as `FINAL ...`). parts: (prompt, target) of every training row of an example
    (None: one row, the prompt and the target).
    """

    name: str
    title: str
    instruction: str
    reads_program: bool
    target: Callable[[Example], str]
    read: Callable[[str], str] = _same
    answers: Callable[[str], list[str]] | None = None
    parts: Callable[[Format, Example], Iterator[tuple[str, str]]] | None = None

    def prompt(self, example: Example) -> str:
        """All that the model sees before it writes; every prompt of a format begins with the same words."""
        return self.ask(example.request)

    def ask(self, request: str) -> str:
        """The prompt for a request."""
        return f"{self.instruction}\n\n{request}\n\nOutput:\n"

    def rows(self, example: Example) -> Iterator[tuple[str, str]]:
        """The training rows of an example, each a prompt and its target."""
        return self.parts(self, example) if self.parts else iter([(self.prompt(example), self.target(example))])

    def described(self, request: str, worked: list[Example]) -> str:
        """The request for a model that was not trained: the reference card and worked examples before it."""
        examples = "".join(f"Example:\n{example.request}\n\nOutput:\n{self.target(example)}\n" for example in worked)
        card = f"The instructions, one a line:\n{reference_card()}\n\n" if self.reads_program else ""
        return f"{self.instruction}\n\n{card}{examples}Write the output alone.\n\n{request}\n\nOutput:\n"


def prompt_sha256(prompt: str) -> str:
    """The hash that ties a generation to its prompt."""
    return hashlib.sha256(prompt.encode()).hexdigest()


def _numbered(example: Example) -> str:
    return "".join(f"STEP {n}: {line}\n" for n, line in enumerate(example.program.split("\n"), 1))


def _with_states(example: Example) -> str:
    lines = zip(example.program.split("\n"), example.states)
    return "".join(f"{line}\n" + (f"{STATE}{state}\n" if state else "") for line, state in lines)


def _without_states(text: str) -> str:
    return "".join(line for line in text.splitlines(keepends=True) if not line.startswith(STATE.strip()))


def _last_state(text: str) -> list[str]:
    states = [line.removeprefix(STATE.strip()).strip() for line in text.splitlines() if line.startswith(STATE.strip())]
    return states[-1:]


def so_far(request: str, program: list[str], value: str | None) -> str:
    """What next_instruction shows below the request: the instructions so far, and the value that they leave."""
    lines = "".join(f"{line}\n" for line in program)
    return f"{request}\n\nSo far:\n{lines}Value: {value if value is not None else '(none)'}"


def _next_rows(form: Format, example: Example) -> Iterator[tuple[str, str]]:
    program = example.program.split("\n")
    for n in range(len(program) + 1):
        value = example.states[n - 1] or None if n else None
        yield form.ask(so_far(example.request, program[:n], value)), f"{program[n] if n < len(program) else END}\n"


FORMATS: dict[str, Format] = {
    form.name: form
    for form in (
        Format(
            "answer_only",
            "Answer only",
            "Carry out the procedure and write its result.",
            False,
            lambda example: f"FINAL: {example.answer}\n",
        ),
        Format(
            "trace_stack_final",
            "Numbered program, with answer",
            "Write the procedure as numbered stack instructions, then its result.",
            True,
            lambda example: f"{_numbered(example)}FINAL {example.answer}\n",
        ),
        Format("trace_stack_no_final", "Numbered program", "Write the procedure as numbered stack instructions.", True, _numbered),
        Format("program_stack", "Program", "Write the procedure as stack instructions.", True, lambda example: f"{example.program}\n"),
        Format(
            "state_trace",
            "Program with values",
            "Write the procedure as stack instructions, and after each its value.",
            True,
            _with_states,
            _without_states,
            _last_state,
        ),
        Format(
            "next_instruction",
            "Next instruction",
            "Write the next stack instruction of the procedure, or END.",
            True,
            lambda example: f"{example.program}\n",
            parts=_next_rows,
        ),
    )
}
