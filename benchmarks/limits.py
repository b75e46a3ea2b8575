"""What this machine can do at most: the rate of fp32 matrix products, and of moving memory.

Each rate is the best of a few tries of some tenths of a second: a limit, not an average. Products are measured on large
squares and at the model's own shapes, with as many rows as an update of training has tokens; at these shapes also with
the second matrix prepacked for oneDNN, which only a matrix that stays as it is can be.
"""

from __future__ import annotations

import time
from collections.abc import Callable

import torch

from depthstress.prepacked import Prepacked

from .arithmetic import shapes, tokens_and_pairs
from .material import Material
from .results import Results

SQUARE = 2048
SECONDS = 0.3  # a try
MEMORY = 64 * 2**20  # floats an array: 256 MiB, beyond any cache


def measure(results: Results, material: Material, quick: bool) -> None:
    """A repetition: every rate once."""
    base = material.base()
    tokens, _ = tokens_and_pairs(material.batches(base, 1)[0])
    for _ in results.missing("limits"):
        results.add("limits", product_rates(base.model.config, tokens) | {"bandwidth": bandwidth()})


def product_rates(config, tokens: int) -> dict[str, float]:
    """Operations a second of each kind of product."""
    return {
        "square_rate": square_rate(),
        "model_rate": model_rate(config, tokens, product_rate),
        "prepacked_rate": model_rate(config, tokens, prepacked_rate),
    }


def square_rate() -> float:
    """Operations a second of the product of two large square fp32 matrices."""
    return product_rate(SQUARE, SQUARE, SQUARE)


def model_rate(config, tokens: int, rate: Callable[[int, int, int, float], float]) -> float:
    """Operations a second of the model's own products, forward and back, over `tokens` rows; weighted by their work.
    `rate`: that of one product."""
    work = seconds = 0.0
    for inputs, outputs in shapes(config).values():
        for a, b in ((inputs, outputs), (outputs, inputs)):
            work += 2.0 * tokens * a * b
            seconds += 2.0 * tokens * a * b / rate(tokens, a, b, SECONDS / 3)
    return work / seconds


def product_rate(rows: int, inner: int, columns: int, seconds: float = SECONDS) -> float:
    """Operations a second of (rows x inner) @ (inner x columns), fp32."""
    a, b = torch.randn(rows, inner), torch.randn(inner, columns)
    out = torch.empty(rows, columns)
    return 2.0 * rows * inner * columns / _fastest(lambda: torch.mm(a, b, out=out), seconds)


def prepacked_rate(rows: int, inner: int, columns: int, seconds: float = SECONDS) -> float:
    """The same with the second matrix prepacked."""
    a, product = torch.randn(rows, inner), Prepacked(torch.randn(columns, inner))
    return 2.0 * rows * inner * columns / _fastest(lambda: product(a), seconds)


def bandwidth() -> float:
    """Bytes a second read and written by adding two arrays into a third."""
    a, b, out = torch.ones(MEMORY), torch.ones(MEMORY), torch.empty(MEMORY)
    return 3.0 * 4 * MEMORY / _fastest(lambda: torch.add(a, b, out=out), SECONDS)


def _fastest(action: Callable[[], object], seconds: float) -> float:
    """The shortest time of one call, in calls over that many seconds, after one that isn't counted."""
    action()
    best, end = float("inf"), time.perf_counter() + seconds
    while time.perf_counter() < end:
        started = time.perf_counter()
        action()
        best = min(best, time.perf_counter() - started)
    return best
