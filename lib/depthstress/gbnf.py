"""Grammars as data: written as GBNF, llama.cpp's dialect of EBNF that vLLM, xgrammar and llguidance read too, and drawn from at random."""

from __future__ import annotations

import random
from collections.abc import Iterator
from dataclasses import dataclass


@dataclass(frozen=True)
class Chars:
    """One character of a class, as GBNF writes it between brackets; `drawn` are those that a random text may get."""

    spec: str
    drawn: str


@dataclass(frozen=True)
class Rule:
    """What the rule of this name says."""

    name: str


@dataclass(frozen=True)
class Repeat:
    """A part some times in a row; `most=None` for any number."""

    part: Node
    least: int = 0
    most: int | None = None


@dataclass(frozen=True)
class Either:
    """One of several, in a random text as likely as their weights say (None: all alike)."""

    options: tuple[Node, ...]
    weights: tuple[int, ...] | None = None


Node = str | Chars | Rule | Repeat | Either | tuple  # a str is itself, a tuple its parts one after another
Rules = dict[str, Node]


def gbnf(rules: Rules) -> str:
    """The rules that `root` needs, one a line. Literals may hold line breaks, but neither quotes nor backslashes."""
    needed = ["root"]
    for name in needed:
        needed += [used for used in dict.fromkeys(_used(rules[name])) if used not in needed]
    return "".join(f"{name} ::= {_written(rules[name], outermost=True)}\n" for name in rules if name in needed)


def draw(rng: random.Random, rules: Rules, node: Node = Rule("root")) -> str:
    """A random text of the grammar; whether a repetition goes on is even odds each time."""
    match node:
        case str():
            return node
        case Chars(_, drawn):
            return rng.choice(drawn)
        case Rule(name):
            return draw(rng, rules, rules[name])
        case Repeat(part, least, most):
            times = least
            while (most is None or times < most) and rng.random() < 0.5:
                times += 1
            return "".join(draw(rng, rules, part) for _ in range(times))
        case Either(options, weights):
            return draw(rng, rules, rng.choices(options, weights)[0])
    return "".join(draw(rng, rules, part) for part in node)


def _used(node: Node) -> list[str]:
    match node:
        case Rule(name):
            return [name]
        case Repeat(part):
            return _used(part)
        case Either(parts) | tuple(parts):
            return [name for part in parts for name in _used(part)]
    return []


def _written(node: Node, outermost: bool = False) -> str:
    match node:
        case str():
            return '"' + node.replace("\n", "\\n") + '"'
        case Chars(spec):
            return f"[{spec}]"
        case Rule(name):
            return name
        case Repeat(part, least, most):
            times = {(0, None): "*", (1, None): "+", (0, 1): "?"}.get((least, most), f"{{{least},{'' if most is None else most}}}")
            return (f"({_written(part)})" if isinstance(part, tuple) else _written(part)) + times
        case Either(options):
            text = " | ".join(map(_written, options))
            return text if outermost else f"({text})"
    return " ".join(map(_written, _joined(node))) or '""'


def _joined(node: Node) -> Iterator[Node]:
    """The parts of a sequence without sequences in it, neighbouring literals as one."""
    text = ""
    for part in node:
        for inner in _joined(part) if isinstance(part, tuple) else [part]:
            if isinstance(inner, str):
                text += inner
                continue
            if text:
                yield text
                text = ""
            yield inner
    if text:
        yield text
