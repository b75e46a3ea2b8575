"""Lists of whole numbers: reduce to one, then calculate."""

from __future__ import annotations

import random

from .base import Family, Start
from .number import LARGEST, arithmetic_operands

REDUCERS = ("SUM", "MAX", "MIN")


class List(Family):
    """Four to seven numbers from 1 to 20, reduced by the first operation."""

    name = "list"
    operations = (*REDUCERS, "ADD", "SUB", "MUL")
    published = REDUCERS
    slots = (frozenset({"list"}),)

    def firsts(self, depth, allowed):
        return REDUCERS

    def start(self, rng: random.Random, first: str) -> Start:
        numbers = tuple(rng.randint(1, 20) for _ in range(rng.randint(4, 7)))
        shown = " ".join(map(str, numbers))
        return Start((f"PUSH_LIST {shown}",), {"list": ", ".join(map(str, numbers))}, numbers)

    def operands(self, rng, opcode, value, table):
        return () if opcode in REDUCERS else arithmetic_operands(rng, opcode)

    def keeps(self, value, last):
        return abs(value) <= LARGEST

    def _draw_operations(self, rng, start, first, allowed, depth):
        later = tuple(opcode for opcode in allowed if opcode not in REDUCERS)
        return super()._draw_operations(rng, start, first, later, depth)
