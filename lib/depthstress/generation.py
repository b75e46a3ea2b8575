"""From prompts to texts: every arm's evaluation, greedy, the adapter on the base that it was trained on.

An engine turns prompts into texts (`engines`); `evaluate` runs an arm's whole evaluation through one, keeps the
texts as they come, and goes on where it was stopped.
"""

from __future__ import annotations

import os
import random
from collections.abc import Iterable, Iterator
from itertools import islice
from pathlib import Path
from typing import TypeVar

from .analysis import FINISHED, PARTIAL, read_lines, read_rows
from .arms import Arm
from .constraint import Constraint
from .engines import Engine, Request, Text
from .engines.hf import engine_on
from .files import json_line, write_jsonl
from .formats import prompt_sha256
from .grammar import arm_grammar, instruction_grammar, program_grammar, random_program
from .inputs import Prompt, adapter_inputs, generation_inputs, no_adapter, prompts
from .memory import trim_heap
from .models import Base
from .progress import Progress
from .runs import Run
from .stepwise import Ask, Loop, run_loops
from .tasks.base import Example
from .tasks.steps import start_of

STEPS = ".steps.jsonl"  # the answers of unfinished loops
GROUP = 8  # rows that reach the disk together: what a kill may lose
RETRY_TEMPERATURE = 0.7
T = TypeVar("T")


def evaluate_arms(run: Run, base: Base, limit: int | None = None) -> None:
    """Generate everything that is not there yet, with one progress line for all."""
    inputs = {(arm, seed): generation_inputs(run, arm, seed) for arm, seed in run.evaluations}  # before any work
    counts = {key: len(prompts(run, *key, limit)) for key in run.evaluations}
    missing = [key for key in run.evaluations if not run.generations(*key).is_done(inputs[key])]
    check_adapters(run, missing)
    total = sum(counts.values())
    with Progress("evaluation", total, "generations", total - sum(counts[key] for key in missing)) as progress:
        for arm, seed in missing:
            evaluate(run, base, arm, seed, inputs[arm, seed], limit, progress)
            trim_heap()


def check_adapters(run: Run, wanted: list[tuple[str, int]]) -> None:
    """Raises MissingInput where an adapter that is needed to generate lacks its weights."""
    for name, seed in wanted:
        adapter = run.arm(name).adapter
        if adapter and (problem := run.adapter(adapter, seed).problem(adapter_inputs(run, adapter, seed))):
            raise no_adapter(run, name, seed, problem)


def evaluate(run: Run, base: Base, name: str, seed: int, inputs: dict, limit: int | None, progress: Progress) -> None:
    """Generate one arm's evaluation into its unit; with a limit the unit stays unfinished."""
    unit, arm = run.generations(name, seed), run.arm(name)
    wanted = prompts(run, name, seed, limit)
    with unit.make(inputs) as work:
        if not work:
            progress.add(len(wanted))
            return
        partial, steps = unit.folder / PARTIAL, unit.folder / STEPS
        done = {row["example_id"] for row in read_rows(unit.folder)}
        left = [prompt for prompt in wanted if prompt.example_id not in done]
        progress.add(len(wanted) - len(left), f"{name}, seed {seed}")
        for group in groups(_texts(run, base, arm, seed, left, steps), GROUP):
            _append(partial, [_row(arm, seed, prompt, outcome) for prompt, outcome in group])
            progress.add(len(group), f"{name}, seed {seed}")
        rows = {row["example_id"]: row for row in read_rows(unit.folder)}
        everything = wanted if limit is None else prompts(run, name, seed)
        work.whole = all(prompt.example_id in rows for prompt in everything)
        if work.whole:
            write_jsonl(unit.folder / FINISHED, (rows[prompt.example_id] for prompt in everything))
            partial.unlink(missing_ok=True)
            steps.unlink(missing_ok=True)


def _texts(run: Run, base: Base, arm: Arm, seed: int, left: list[Prompt], steps: Path) -> Iterator[tuple[Prompt, dict]]:
    """Each prompt with what was written: text, end, new_tokens and, of loops, what they were made of."""
    if arm.writer == "oracle":
        yield from ((prompt, _whole(Text(prompt.target, "eos", len(base.tokens(prompt.target))))) for prompt in left)
    elif arm.writer == "random":
        yield from ((prompt, _whole(_drawn(base, example, seed))) for prompt, example in zip(left, _examples(run, seed, left)))
    else:
        adapter = run.adapter(arm.adapter, seed).folder if arm.adapter else None
        with engine_on(base, adapter, run.suite.evaluation.batch_size) as engine:
            if arm.stepwise:
                loops = [Loop(example, arm) for example in _examples(run, seed, left)]
                _carry_out(run, base, engine, loops, steps)
                yield from zip(left, (loop.outcome() for loop in loops))
            else:
                yield from _generated(run, base, arm, engine, left)


def _examples(run: Run, seed: int, wanted: list[Prompt]) -> list[Example]:
    by_id = {example.id: example for split in dict.fromkeys(prompt.split for prompt in wanted) for example in run.examples(split, seed)}
    return [by_id[prompt.example_id] for prompt in wanted]


def _drawn(base: Base, example: Example, seed: int) -> Text:
    """A random program of the right length that starts from the right inputs."""
    text = random_program(random.Random(f"random/{seed}/{example.id}"), example.depth, start_of(example).loads)
    return Text(text, "eos", len(base.tokens(text)))


def _generated(run: Run, base: Base, arm: Arm, engine: Engine, left: list[Prompt]) -> Iterator[tuple[Prompt, dict]]:
    """Whole texts. A constrained one that was cut off ends with its last whole line: a grammar derives whole lines alone."""
    constraint = _constraint(base, arm_grammar(arm.format)) if arm.decoding == "constrained" else None
    requests = [
        Request(
            chat(base, prompt.text) if prompt.chat else prompt.text,
            run.suite.evaluation.limit(len(base.tokens(prompt.target))),
            constraint,
        )
        for prompt in left
    ]
    for index, text in engine.generate(requests):
        whole = text.text[: text.text.rfind("\n") + 1] if constraint and text.end == "limit" else text.text
        yield left[index], _whole(Text(whole, text.end, text.tokens))


def _whole(text: Text) -> dict:
    return {"text": text.text, "end": text.end, "new_tokens": text.tokens}


def _carry_out(run: Run, base: Base, engine: Engine, loops: list[Loop], steps: Path) -> None:
    """Run loops to their end; answers are kept as they come, so that a killed run asks nothing twice."""
    answers = {row["key"]: Text(row["text"], row["end"], row["tokens"]) for row in read_lines(steps)}

    def write(asks: list[Ask]) -> Iterator[tuple[Ask, Text]]:
        requests = [_request(run, base, ask) for ask in asks]
        for group in groups(engine.generate(requests), GROUP):
            _append(steps, [{"key": asks[index].key, "text": text.text, "end": text.end, "tokens": text.tokens} for index, text in group])
            yield from ((asks[index], text) for index, text in group)

    run_loops(loops, answers, write)


def _request(run: Run, base: Base, ask: Ask) -> Request:
    grammar = None
    if ask.standing:
        table = ask.standing.table is not None
        grammar = program_grammar(least=1, most=1) if ask.whole else instruction_grammar(ask.standing.kind, table)
    return Request(
        ask.prompt,
        run.suite.evaluation.limit(len(base.tokens(ask.gold))),
        _constraint(base, grammar) if grammar else None,
        stop=None if ask.whole else "\n",
        temperature=RETRY_TEMPERATURE if ask.attempt else 0.0,
        seed=int(ask.key[:12], 16),
    )


def _constraint(base: Base, grammar: str) -> Constraint:
    return Constraint(grammar, base.tokenizer, base.model.config.get_text_config().vocab_size, base.stops)


def chat(base: Base, text: str) -> str:
    """A request through the model's chat template, without thinking blocks where the template knows the switch."""
    message = [{"role": "user", "content": text}]
    return base.tokenizer.apply_chat_template(message, tokenize=False, add_generation_prompt=True, enable_thinking=False)


def groups(items: Iterable[T], size: int) -> Iterator[list[T]]:
    """Lists of `size` items, the last one shorter, each as soon as its items are there."""
    items = iter(items)
    while group := list(islice(items, size)):
        yield group


def _row(arm: Arm, seed: int, prompt: Prompt, outcome: dict) -> dict:
    return {
        "example_id": prompt.example_id, "arm": arm.name, "seed": seed, "split": prompt.split,
        "prompt_sha256": prompt_sha256(prompt.text), **outcome,
    }  # fmt: skip


def _append(path: Path, rows: list[dict]) -> None:
    """Add rows, beginning a new line after a torn one, and flush it to disk."""
    with path.open("a+b") as file:
        if file.tell() and not _ends_with_newline(file):
            file.write(b"\n")
        file.write("".join(map(json_line, rows)).encode())
        file.flush()
        os.fsync(file.fileno())


def _ends_with_newline(file) -> bool:
    file.seek(-1, os.SEEK_END)
    return file.read(1) == b"\n"
