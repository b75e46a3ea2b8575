"""Greedy generation with a transformers model in memory: continuous batching in one forward pass a step.

Every running row has a slot in a preallocated cache of keys and values (`slots`). A step runs, as one packed
sequence without padding, every token that is not in the cache yet: the last one of rows that are being written,
all of a prompt's that has just joined (Orca's selective batching: Yu et al., 2022), all that a constraint forced.
A row that ends leaves at once and a waiting one takes its slot; prompts join a few a step, since their tokens make
the matrix products of the rows beside them larger, and so faster.
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, nullcontext
from dataclasses import dataclass
from pathlib import Path

import torch

from ..memory import free_bytes
from ..models import Base, trained_adapter
from . import Matcher, Request, Text
from .flat import flattened
from .slots import Slots, bytes_a_token

JOINING_TOKENS = 256  # of prompts that join in one step: larger matrix products than these gain little
MEMORY_SHARE = 0.5  # of the free memory, for keys and values


@dataclass(eq=False)
class Row:
    """A request being written: its tokens, of which the first `cached` have keys and values in the row's slot."""

    index: int
    request: Request
    ids: list[int]
    prompt: int  # tokens of the prompt
    matcher: Matcher | None
    cached: int = 0
    end: str | None = None

    def __post_init__(self) -> None:
        self.random = torch.Generator().manual_seed(self.request.seed) if self.request.temperature else None

    def drawn(self, logits: torch.Tensor) -> int:
        """A token drawn at the request's temperature, from the row's own random stream."""
        chances = (logits.float() / self.request.temperature).softmax(dim=-1).cpu()
        return int(torch.multinomial(chances, 1, generator=self.random))

    @property
    def written(self) -> list[int]:
        return self.ids[self.prompt :]

    @property
    def most(self) -> int:
        """The tokens that the row may come to."""
        return self.prompt + self.request.max_new_tokens


@contextmanager
def engine_on(base: Base, adapter: Path | None, batch_size: int) -> Iterator[HfEngine]:
    """An engine on the base with the adapter in a folder (None: as it comes). On a CPU the model runs flat, the adapter merged
    in; on CUDA the adapter stays apart, since the base stays in 4 bits."""
    with trained_adapter(base, adapter) if adapter else nullcontext(base.model) as model:
        with flattened(model) if base.device.type == "cpu" else nullcontext(model) as ready:
            yield HfEngine(base, ready, batch_size)


class HfEngine:
    """Greedy texts of a transformers model (a PEFT model runs with its active adapter); at most `batch_size` rows at
    a time, fewer where their keys and values would take more than half of the memory that is free.

    `share_prefix`: take over what a prompt has in common with a row that is being written, instead of computing it again.
    `joining_tokens`: of prompts that join in one step, at most (but always one prompt, where a slot is free).
    """

    def __init__(self, base: Base, model, batch_size: int, share_prefix: bool = True, joining_tokens: int = JOINING_TOKENS) -> None:
        self.base = base
        self.model = model.get_base_model() if hasattr(model, "get_base_model") else model
        self.batch_size, self.share_prefix, self.joining_tokens = batch_size, share_prefix, joining_tokens

    def generate(self, requests: Sequence[Request]) -> Iterator[tuple[int, Text]]:
        """Pairs of a request's index and its text, as rows end. Raises ValueError for a prompt without tokens, and
        where a constraint allows no token at all."""
        rows = [self._row(index, request) for index, request in enumerate(requests)]
        waiting = sorted((row for row in rows if not row.end), key=lambda row: (len(row.ids), row.most))  # the longest is popped first
        yield from ((row.index, self._text(row)) for row in rows if row.end)
        if not waiting:
            return
        slots = self._slots(waiting)
        running: list[Row] = []
        while waiting or running:
            self._join(waiting, running, slots)
            self._step(running, slots)
            for row in [row for row in running if row.end]:
                self._leave(row, running, slots)
                yield row.index, self._text(row)

    def _join(self, waiting: list[Row], running: list[Row], slots: Slots) -> None:
        """Give waiting rows the slots that are free, the longest first, each with what it has in common with a row that is
        there. The first of all joins alone, so that the next ones find it there."""
        joining, alone = 0, not running and self.share_prefix
        while waiting and len(running) < slots.count and not (joining and alone):
            row = waiting[-1]
            donor, common = self._donor(row, running)
            if joining and joining + len(row.ids) - common > self.joining_tokens:
                break
            if common:
                slots.copy(donor, len(running), common)
            row.cached = common
            joining += len(row.ids) - common
            running.append(waiting.pop())

    def _donor(self, row: Row, running: list[Row]) -> tuple[int, int]:
        """The slot whose cached tokens begin as the row does for longest, and for how many tokens; the row keeps one to run."""
        if not self.share_prefix:
            return 0, 0
        common = (len(os.path.commonprefix([other.ids[: other.cached], row.ids[:-1]])) for other in running)
        return max(enumerate(common), key=lambda pair: pair[1], default=(0, 0))

    def _row(self, index: int, request: Request) -> Row:
        ids = self.base.tokens(request.prompt)
        if not ids:
            raise ValueError(f"request {index}: the prompt has no tokens, and there is nothing to go on with; give it a text")
        row = Row(index, request, ids, len(ids), request.constraint.start() if request.constraint else None)
        row.end = "limit" if request.max_new_tokens < 1 else None
        self._append_forced(row)
        return row

    def _slots(self, rows: list[Row]) -> Slots:
        capacity = max(row.most for row in rows)
        room = MEMORY_SHARE * free_bytes(self.model.device) // (capacity * bytes_a_token(self.model))
        count = int(max(1, min(self.batch_size, len(rows), room)))
        return Slots(self.model, count, capacity)

    @torch.inference_mode()
    def _step(self, running: list[Row], slots: Slots) -> None:
        """Run what is not cached yet, and give every row its next token and what the constraint then forces."""
        logits = slots.run([row.ids[row.cached :] for row in running], [row.cached for row in running])
        for row in running:
            row.cached = len(row.ids)
        constrained = [n for n, row in enumerate(running) if row.matcher]
        for n in constrained:
            running[n].matcher.allow(logits[n])
        tokens = logits.argmax(dim=-1)
        for n, row in enumerate(running):
            if row.request.temperature:
                tokens[n] = row.drawn(logits[n])
        if constrained and logits.gather(1, tokens[:, None])[constrained].isneginf().any():
            raise ValueError("a constraint allows no token at all, not even an end token")
        for row, token in zip(running, tokens.tolist()):
            self._append(row, token)
            self._append_forced(row)

    def _append_forced(self, row: Row) -> None:
        while row.matcher and not row.end and (forced := row.matcher.forced()):
            for token in forced:
                if not row.end:
                    self._append(row, token)

    def _append(self, row: Row, token: int) -> None:
        """The row goes on with this token, which may end it."""
        if row.matcher:
            row.matcher.accept(token)
        if token in self.base.stops:
            row.end = "eos"
            return
        row.ids.append(token)
        if row.request.stop and row.request.stop in self._decoded(row):
            row.end = "stop"
        elif row.matcher and row.matcher.over:
            row.end = "eos"
        elif len(row.ids) == row.most:
            row.end = "limit"

    def _leave(self, row: Row, running: list[Row], slots: Slots) -> None:
        """Free the row's slot and move the last row there, so that running rows have the first slots."""
        slot, last = running.index(row), running.pop()
        if last is not row:
            slots.copy(len(running), slot, last.cached)
            running[slot] = last

    def _decoded(self, row: Row) -> str:
        return self.base.tokenizer.decode(row.written, skip_special_tokens=True, clean_up_tokenization_spaces=False)

    def _text(self, row: Row) -> Text:
        text = self._decoded(row)
        if row.end == "stop":
            text = text[: text.index(row.request.stop) + len(row.request.stop)]
        return Text(text, row.end, len(row.written))
