"""Engines: anything that turns requests into texts. This module has the interface and needs no torch; `hf` runs a transformers model."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:
    from torch import Tensor


class Matcher(Protocol):
    """How far one text has come in its constraint."""

    over: bool  # the text is whole: nothing may follow

    def allow(self, logits: Tensor) -> None:
        """Set the logits [vocabulary] of every token that may not come next to -inf, in place."""

    def accept(self, token: int) -> None:
        """The text goes on with this token."""

    def forced(self) -> list[int]:
        """The tokens, not yet accepted, that alone may come next; [] where there is a choice."""


class Constraint(Protocol):
    """What texts may look like; one for any number of texts."""

    def start(self) -> Matcher: ...


@dataclass(frozen=True)
class Request:
    """A prompt to go on with, for `max_new_tokens` at most; the text ends once it contains `stop`, which is kept."""

    prompt: str
    max_new_tokens: int
    constraint: Constraint | None = None
    stop: str | None = None


@dataclass(frozen=True)
class Text:
    """What a model wrote, why it ended ("eos", "limit" or "stop"), and how many tokens it wrote before the end token."""

    text: str
    end: str
    tokens: int


class Engine(Protocol):
    """Writes the text of every request. The order is the engine's own: each comes as soon as it is whole."""

    def generate(self, requests: Sequence[Request]) -> Iterator[tuple[int, Text]]:
        """Pairs of a request's index and its text."""
