"""An arm: what is written (format), who writes it (writer and training), and how its text is decoded.

Arms of the same format and training share one adapter, so that they differ in the decoding alone.
"""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import Field, model_validator

from .formats import FORMATS, Format
from .grammar import GRAMMAR_FORMATS
from .settings import Name, Settings

DEFAULT = "default"  # the suite's own `train`, without a change
STEP_FORMATS = ("program_stack", "next_instruction")
TrainingName = Annotated[str, Field(pattern=r"^[a-z][a-z0-9_]*$")]


class Stepwise(Settings):
    """One step at a time, the interpreter in between.

    sees: the model is shown the value that the step starts from, or only its kind.
    constrained: the grammar allows only instructions that fit the kind of the value.
    retries: how often a step that fails is asked for again, sampled (0: never).
    """

    sees: Literal["value", "kind"] = "value"
    constrained: bool = False
    retries: int = Field(default=0, ge=0, le=8)


class Arm(Settings):
    """One arm of a suite; a published arm can be given by its name alone.

    format: a name in `formats.FORMATS`.
    writer: `adapter` (the base with the adapter of this training), `base` (the model as it comes, through its chat
    template with the reference card and `shots` worked examples), `random` (a program drawn from the grammar) or
    `oracle` (the gold target): the last two are controls without a model.
    training: `default`, or one of the suite's `trainings`.
    decoding: `free`, `constrained` by the grammar, or `stepwise`.
    """

    name: Name
    title: str = ""
    format: str
    writer: Literal["adapter", "base", "random", "oracle"] = "adapter"
    training: TrainingName = DEFAULT
    shots: int = Field(default=0, ge=0, le=16)
    decoding: Literal["free", "constrained", "stepwise"] = "free"
    stepwise: Stepwise | None = None

    @model_validator(mode="before")
    @classmethod
    def _published(cls, given: object) -> object:
        """`program_stack` stands for the arm of that name and format."""
        if isinstance(given, str):
            given = {"name": given, "format": given}
        if isinstance(given, dict) and given.get("decoding") == "stepwise":
            given = {"stepwise": {}} | given
        return given

    @model_validator(mode="after")
    def _check(self) -> Arm:
        if self.format not in FORMATS:
            raise ValueError(f"unknown format {self.format!r}; there are {', '.join(FORMATS)}")
        if self.stepwise and self.decoding != "stepwise":
            raise ValueError(f"has settings for stepwise, but its decoding is {self.decoding}")
        if self.stepwise and self.format not in STEP_FORMATS:
            raise ValueError(f"decoding stepwise needs format {' or '.join(STEP_FORMATS)}, not {self.format}")
        if self.format == "next_instruction" and not (self.stepwise and self.stepwise.sees == "value"):
            raise ValueError("format next_instruction needs decoding stepwise, and sees the value")
        if (self.decoding == "constrained" or self.stepwise and self.stepwise.constrained) and self.format not in GRAMMAR_FORMATS:
            raise ValueError(f"there is no grammar for format {self.format}; there is one for {', '.join(GRAMMAR_FORMATS)}")
        if self.writer != "adapter" and (self.training != DEFAULT or self.stepwise):
            raise ValueError(f"writer {self.writer} has no adapter: leave out training and stepwise")
        if self.shots and self.writer != "base":
            raise ValueError("shots are for writer base")
        return self

    @property
    def written(self) -> Format:
        """The arm's format."""
        return FORMATS[self.format]

    @property
    def adapter(self) -> str | None:
        """The name of the adapter, shared by all arms of this format and training; None without one."""
        if self.writer != "adapter":
            return None
        return self.format if self.training == DEFAULT else f"{self.format}-{self.training}"

    @property
    def decoded(self) -> str:
        """The decoding as tables hold it: free, constrained, stepwise_value, stepwise_kind, stepwise_kind_constrained, ..."""
        if not self.stepwise:
            return self.decoding
        extras = ("constrained",) * self.stepwise.constrained + (f"retries{self.stepwise.retries}",) * bool(self.stepwise.retries)
        return "_".join(("stepwise", self.stepwise.sees, *extras))

    @property
    def taught(self) -> str:
        """The arm's adapter as figures and tables name it."""
        return self.written.title + ("" if self.training == DEFAULT else f" (trained {self.training.replace('_', ' ')})")

    @property
    def shown(self) -> str:
        """The arm as figures and tables name it."""
        return self.title or self._described()

    def _described(self) -> str:
        notes = [] if self.training == DEFAULT else [f"trained {self.training.replace('_', ' ')}"]
        if self.writer == "base":
            notes.append(f"not trained, {self.shots} examples")
        elif self.writer != "adapter":
            notes.append(self.writer)
        if self.stepwise:
            notes.append(f"stepwise, sees the {self.stepwise.sees}" + (", constrained" if self.stepwise.constrained else ""))
            notes += [f"{self.stepwise.retries} retries"] if self.stepwise.retries else []
        elif self.decoding != "free":
            notes.append(self.decoding)
        return self.written.title + (f" ({', '.join(notes)})" if notes else "")
