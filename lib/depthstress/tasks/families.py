"""The list of families. Adding one: a module, a wording file and a line here."""

from .base import Family, Primitives
from .date import Date
from .list import List
from .number import Number
from .path import Path
from .string import String
from .table import Table

FAMILIES: dict[str, Family] = {family.name: family for family in (String(), Number(), Table(), Date(), List(), Path())}


def trainable(primitives: Primitives) -> frozenset[str]:
    """The opcodes of operations that depth-1 training data with this setting can contain."""
    return frozenset(opcode for family in FAMILIES.values() for opcode in family.allowed(primitives))
