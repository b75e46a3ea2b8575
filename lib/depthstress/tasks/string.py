"""Codes such as `KC-3252-WF`: case, order, hyphens, parts."""

from __future__ import annotations

import random
import string

from .base import Family, Start

MIN_LENGTH = 3  # a value with steps to come stays this long


class String(Family):
    """Two letters, four digits, two letters, with hyphens; upper or lower case."""

    name = "string"
    operations = ("STRIP_HYPHENS", "REVERSE", "LOWER", "UPPER", "TAKE_PREFIX", "TAKE_SUFFIX", "SLICE")
    published = ("STRIP_HYPHENS", "REVERSE", "LOWER", "UPPER")
    slots = (frozenset({"text"}),)

    def start(self, rng: random.Random, first: str) -> Start:
        letters = "".join(rng.choices(string.ascii_uppercase, k=4))
        text = f"{letters[:2]}-{rng.randint(1000, 9999)}-{letters[2:]}"
        if first == "UPPER" or (first != "LOWER" and rng.random() < 0.5):
            text = text.lower()
        return Start((f"PUSH_TEXT {text}",), {"text": text}, text)

    def operands(self, rng, opcode, value, table):
        longest = len(value) - 1  # keeping everything would change nothing
        if opcode == "SLICE":
            first = rng.randint(1, max(longest - 1, 1))
            return str(first), str(rng.randint(min(first + 1, longest), longest))
        if opcode in ("TAKE_PREFIX", "TAKE_SUFFIX"):
            return (str(rng.randint(min(2, longest), longest)),)
        return ()

    def keeps(self, value, last):
        if value.startswith("-") or value.endswith("-"):
            return last  # a hyphen at an edge stays only as a result
        return last or (len(value) >= MIN_LENGTH and any(c.isalpha() for c in value))
