"""A small table of numbers: look up, add from it, calculate."""

from __future__ import annotations

import random

from .base import Family, Start
from .number import LARGEST, arithmetic_operands

KEYS = ("alpha", "beta", "delta", "gamma", "kappa", "omega", "sigma", "theta")


class Table(Family):
    """Four keys with numbers from 1 to 40; the procedure begins with a look-up.

    Only a depth-1 task with the full primitives may begin with another operation, on a number given beside
    the table: so ADD_LOOKUP, which no published depth-1 task could contain, can be taught at depth 1.
    """

    name = "table"
    operations = ("LOOKUP", "ADD_LOOKUP", "ADD", "MUL")
    published = ("LOOKUP",)
    slots = (frozenset({"table"}), frozenset({"table", "number"}))

    def firsts(self, depth, allowed):
        return allowed if depth == 1 else ("LOOKUP",)

    def start(self, rng: random.Random, first: str) -> Start:
        table = {key: rng.randint(1, 40) for key in sorted(rng.sample(KEYS, 4))}
        load = "TABLE " + " ".join(f"{key}:{n}" for key, n in table.items())
        slots = {"table": ", ".join(f"{key} = {n}" for key, n in table.items())}
        if first == "LOOKUP":
            return Start((load,), slots, None, table)
        number = rng.randint(1, 99)
        return Start((load, f"PUSH {number}"), slots | {"number": str(number)}, number, table)

    def operands(self, rng, opcode, value, table):
        if opcode in ("LOOKUP", "ADD_LOOKUP"):
            return (rng.choice(list(table)),)
        return arithmetic_operands(rng, opcode)

    def keeps(self, value, last):
        return abs(value) <= LARGEST

    def _draw_operations(self, rng, start, first, allowed, depth):
        later = tuple(opcode for opcode in allowed if opcode != "LOOKUP")
        return super()._draw_operations(rng, start, first, later, depth)
