"""What the time of an update goes to, by torch's profiler: each operator's own time, in a few groups.

It is measured beside the timed loop, not in it. What no operator accounts for is Python, autograd's bookkeeping and
waiting for the other thread.
"""

from __future__ import annotations

from torch.profiler import profile

from .results import SHARES

PRODUCTS = {"aten::mm", "aten::addmm", "aten::addmm_", "aten::bmm", "aten::baddbmm", "mkldnn::_linear_pointwise"}
MOVING = {"aten::index_select", "aten::index_copy_", "aten::index_add_", "aten::copy_", "aten::cat", "aten::gather", "aten::fill_"}


def group(operator: str) -> str:
    """The group of an operator of torch, by its name."""
    if operator in PRODUCTS:
        return "products"
    return "moving" if operator in MOVING else "elementwise" if operator.startswith("aten::") else "autograd"


def shares(profiled: profile, seconds: float) -> dict[str, float]:
    """The share of so many seconds that each group took while they were profiled; `outside` is what is left."""
    taken = dict.fromkeys(SHARES, 0.0)
    for event in profiled.key_averages():
        taken[group(event.key)] += event.self_cpu_time_total / 1e6 / seconds
    return taken | {"outside": 1 - sum(taken.values())}
