"""Whole numbers: add, subtract, multiply."""

from __future__ import annotations

import random

from .base import Family, Start

LARGEST = 999_999  # magnitude of any value on the way


def arithmetic_operands(rng: random.Random, opcode: str) -> tuple[str, ...]:
    """The operand of ADD or SUB (1 to 25), or of MUL (2 to 7)."""
    return (str(rng.randint(2, 7) if opcode == "MUL" else rng.randint(1, 25)),)


class Number(Family):
    """A whole number from 1 to 99."""

    name = "number"
    operations = published = ("ADD", "SUB", "MUL")
    slots = (frozenset({"number"}),)

    def start(self, rng: random.Random, first: str) -> Start:
        number = rng.randint(1, 99)
        return Start((f"PUSH {number}",), {"number": str(number)}, number)

    def operands(self, rng, opcode, value, table):
        return arithmetic_operands(rng, opcode)

    def keeps(self, value, last):
        return abs(value) <= LARGEST
