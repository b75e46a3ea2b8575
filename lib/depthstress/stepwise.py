"""One step at a time, the interpreter in between: it holds the value, the model writes the next instruction.

Two loops. With the steps split by us from the numbered list (format program_stack), the model sees one step in
a frame that it knows, with the value the interpreter stands at, or with a sample of the value's kind and the
loading instructions already written; it never has to find its place. Without (format next_instruction), it sees the
whole request, the program so far and the value, and writes the next instruction or END.

A loop's outcome is one flat program, which anybody can execute again, and every text that it was made of. A step
that fails ends it: nothing is repaired, and without `retries` nothing is asked twice. The same prompt is written
once (greedy decoding has one answer), whichever tasks ask for it.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterable
from dataclasses import asdict, dataclass, field

from .arms import Arm
from .formats import END, so_far
from .interpreter import Error, Instruction, Reason, execute, parse
from .opcodes import OPCODES, Kind
from .tasks.base import Example
from .tasks.steps import Standing, start_of, step_request

SPARE_STEPS = 4  # beyond twice the gold program, before a loop that never says END is stopped


@dataclass(frozen=True)
class Ask:
    """What the model is asked. prompt: with what is already written for it at its end; standing: where the grammar
    starts from (None: no grammar); whole: a program of one operation, not a single instruction; attempt: how often it was
    asked before."""

    prompt: str
    gold: str  # what a perfect model would write: how long an answer may be follows from it, and nothing else
    standing: Standing | None = None
    whole: bool = False
    attempt: int = 0

    @property
    def key(self) -> str:
        """The hash under which the answer is kept."""
        grammar = (self.standing.kind, self.standing.table is not None, self.whole) if self.standing else None
        return hashlib.sha256(repr((self.prompt, grammar, self.attempt)).encode()).hexdigest()


@dataclass(frozen=True)
class Step:
    """One answer: the key of what was asked, the text, how it ended, its tokens, the value after it, and what was wrong."""

    ask: str
    text: str
    end: str
    tokens: int
    value: str | None
    error: str | None


@dataclass
class Loop:
    """One task being worked on, and in the end its outcome."""

    example: Example
    arm: Arm
    program: list[Instruction] = field(default_factory=list)
    steps: list[Step] = field(default_factory=list)
    done: int = 0  # steps of the procedure that were carried out
    attempt: int = 0
    end: str = ""  # "" while it goes on; "eos", "failed" or "limit"
    failure: str | None = None

    def __post_init__(self) -> None:
        self.standing = start_of(self.example) if self.oracle else Standing(None, None)
        self.program = list(parse("\n".join(self.standing.loads))) if self.oracle and self.sees_kind else []

    @property
    def oracle(self) -> bool:
        """Whether the steps are split by us."""
        return self.arm.format != "next_instruction"

    @property
    def sees_kind(self) -> bool:
        return self.arm.stepwise.sees == "kind"

    def ask(self) -> Ask:
        """What comes next."""
        standing = self.standing if self.arm.stepwise.constrained else None
        if not self.oracle:
            lines = list(map(str, self.program))
            prompt = self.arm.written.ask(so_far(self.example.request, lines, self.standing.value))
            return Ask(prompt, max(self.example.program.split("\n"), key=len), attempt=self.attempt)
        operation = self.example.program.split("\n")[self.done - self.example.depth]
        shown = self.standing.sample(self.example.family) if self.sees_kind else self.standing
        prompt = self.arm.written.ask(step_request(self.example.family, shown, self.example.steps[self.done]))
        if self.sees_kind:
            return Ask(prompt + "".join(f"{line}\n" for line in shown.loads), operation, standing, attempt=self.attempt)
        return Ask(prompt, "\n".join([*shown.loads, operation]), standing, whole=True, attempt=self.attempt)

    def take(self, asked: Ask, text: str, end: str, tokens: int = 0) -> None:
        """Carry out what was written, or end the loop where that can't be done."""
        if not self.oracle and text.strip() == END:
            self._note(asked, text, end, tokens, None)
            self.end = "eos"
            return
        added = self._added(text)
        problem = self._problem(text, end, added)
        run = execute((*self.program, *added)) if not problem else None
        problem = problem or (str(run.error) if run.error and not self._still_empty(run.error, added) else None)
        if problem and self.attempt < self.arm.stepwise.retries:
            self._note(asked, text, end, tokens, problem)
            self.attempt += 1
            return
        self.program += added
        if problem:
            self.end, self.failure = "failed", f"step {self.done + 1}: {problem}"
            self._note(asked, text, end, tokens, problem)
            return
        self._move(run.states[-1])
        self._note(asked, text, end, tokens, None)
        self.done, self.attempt = self.done + 1, 0
        if self.oracle and self.done == len(self.example.steps):
            self.end = "eos"
        elif not self.oracle and self.done >= 2 * len(self.example.program.split("\n")) + SPARE_STEPS:
            self.end, self.failure = "limit", f"no {END} after {self.done} instructions"

    def _added(self, text: str) -> list[Instruction]:
        """The instructions of a text, without those that load what the machine already holds."""
        written = list(parse(text))
        loads = list(parse("\n".join(self.standing.loads)))
        if self.oracle and self.program and written[: len(loads)] == loads:
            return written[len(loads) :]
        return written

    def _problem(self, text: str, end: str, added: list[Instruction]) -> str | None:
        if not added:
            return "no instruction"
        if end == "limit":
            return "cut off at the token limit"
        if (not self.oracle or self.sees_kind) and len(added) > 1:
            return f"{len(added)} instructions, not one"
        return None

    def _still_empty(self, error: Error, added: list[Instruction]) -> bool:
        """Whether the stack is empty because nothing but the table was loaded, which is no error yet."""
        tables = all(OPCODES.get(i.opcode) is OPCODES["TABLE"] for i in (*self.program, *added))
        return not self.oracle and error.reason is Reason.EMPTY_STACK and tables

    def _move(self, value: str | None) -> None:
        leaves: list[Kind] = [OPCODES[i.opcode].leaves for i in self.program if OPCODES[i.opcode].leaves]
        table = next((i.rest for i in reversed(self.program) if i.opcode == "TABLE"), None)
        self.standing = Standing(value, leaves[-1] if leaves else None, table)

    def _note(self, asked: Ask, text: str, end: str, tokens: int, problem: str | None) -> None:
        self.steps.append(Step(asked.key, text, end, tokens, None if problem else self.standing.value, problem))

    @property
    def text(self) -> str:
        """The flat program."""
        return "".join(f"{instruction}\n" for instruction in self.program)

    def outcome(self) -> dict:
        """What is kept of it, beside the tokens."""
        tokens = sum(step.tokens for step in self.steps)
        return {
            "text": self.text,
            "end": self.end,
            "new_tokens": tokens,
            "failure": self.failure,
            "steps": [asdict(step) for step in self.steps],
        }


Write = Callable[[list[Ask]], Iterable[tuple[Ask, object]]]


def run_loops(loops: list[Loop], answers: dict[str, object], write: Write, progress: Callable[[int], None] = lambda ended: None) -> None:
    """Carry all loops to their end, in rounds: every open loop asks, `write` answers what is not in `answers` yet
    (a text object with `text` and `end`, by `Ask.key`) and adds to it, every loop takes its answer.

    progress: called after each round with the number of loops that ended in it.
    """
    while active := [loop for loop in loops if not loop.end]:
        asked = [(loop, loop.ask()) for loop in active]
        missing = {ask.key: ask for _, ask in asked if ask.key not in answers}
        for ask, text in write(list(missing.values())):
            answers[ask.key] = text
        for loop, ask in asked:
            answer = answers[ask.key]
            loop.take(ask, answer.text, answer.end, answer.tokens)
        progress(sum(bool(loop.end) for loop in active))
