"""ISO dates: move by days and weeks."""

from __future__ import annotations

import datetime as dt
import random

from .base import Family, Start


class Date(Family):
    """A day of 2026."""

    name = "date"
    operations = published = ("ADD_DAYS", "ADD_WEEKS")
    slots = (frozenset({"date"}),)

    def start(self, rng: random.Random, first: str) -> Start:
        date = dt.date(2026, 1, 1) + dt.timedelta(days=rng.randrange(365))
        return Start((f"PUSH_DATE {date}",), {"date": str(date)}, date)

    def operands(self, rng, opcode, value, table):
        return (str(rng.randint(2, 9) if opcode == "ADD_DAYS" else rng.randint(2, 5)),)
