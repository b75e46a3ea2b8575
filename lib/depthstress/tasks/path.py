"""File paths such as `/reports/alpha/invoice_56.txt`: parts and case."""

from __future__ import annotations

import random

from .base import Family, Start

FOLDERS = ("archive", "alpha", "beta", "client", "daily", "ledger", "north", "ops", "reports", "south")
STEMS = ("errors", "index", "invoice", "sales", "summary")
EXTENSIONS = ("csv", "json", "log", "txt")


class Path(Family):
    """Two to four folders and a file with an extension; upper case only where UPPER must have an effect."""

    name = "path"
    operations = ("BASENAME", "DIRNAME", "EXTENSION", "STRIP_EXT", "LOWER", "UPPER")
    published = ("BASENAME", "DIRNAME", "EXTENSION")
    slots = (frozenset({"path"}),)

    def start(self, rng: random.Random, first: str) -> Start:
        folders = rng.sample(FOLDERS, rng.randint(2, 4))
        path = "/" + "/".join([*folders, f"{rng.choice(STEMS)}_{rng.randint(10, 99)}.{rng.choice(EXTENSIONS)}"])
        path = path.upper() if first == "LOWER" else path
        return Start((f"PUSH_TEXT {path}",), {"path": path}, path)

    def applies(self, opcode, value):
        return opcode != "DIRNAME" or "/" in value  # nobody asks for the directory of "csv"

    def keeps(self, value, last):
        return last or any(c.isalpha() for c in value)  # "/" ends a procedure
