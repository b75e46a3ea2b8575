"""The tasks: a family of procedures a module, its wordings as data, and the splits made from them."""

from .base import Example, Family
from .families import FAMILIES, trainable
from .splits import check_reach, droppable, make_split

__all__ = ["FAMILIES", "Example", "Family", "check_reach", "droppable", "make_split", "trainable"]
