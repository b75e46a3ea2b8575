"""What the time of an update goes to, by torch's profiler: each operator's own time, in a few groups.

It is measured beside the timed loop, not in it. What no operator accounts for is Python, autograd's bookkeeping and
waiting for the other thread.
"""

from __future__ import annotations

import time

from torch.profiler import ProfilerActivity, profile

from depthstress.models import Base, new_adapter
from depthstress.suites import Training
from depthstress.training import Row, new_optimizer, update

from .results import SHARES

PRODUCTS = {"aten::mm", "aten::addmm", "aten::addmm_", "aten::bmm", "aten::baddbmm"}
MOVING = {"aten::index_select", "aten::index_copy_", "aten::index_add_", "aten::copy_", "aten::cat", "aten::gather", "aten::fill_"}


def group(operator: str) -> str:
    """The group of an operator of torch, by its name."""
    if operator in PRODUCTS:
        return "products"
    return "moving" if operator in MOVING else "elementwise" if operator.startswith("aten::") else "autograd"


def update_shares(base: Base, settings: Training, batches: list[list[Row]], seed: int) -> dict[str, float]:
    """The share of the time of these updates that each group takes; `outside` is what is left."""
    with new_adapter(base, settings.lora, seed) as model:
        optimizer = new_optimizer([weight for weight in model.parameters() if weight.requires_grad], settings.lr)
        model.train()
        update(base, model, optimizer, batches[0], settings.batch_size)  # what is allocated once is allocated
        started = time.perf_counter()
        with profile(activities=[ProfilerActivity.CPU]) as profiled:
            for rows in batches:
                update(base, model, optimizer, rows, settings.batch_size)
        seconds = time.perf_counter() - started
    shares = dict.fromkeys(SHARES[:-1], 0.0)
    for event in profiled.key_averages():
        shares[group(event.key)] += event.self_cpu_time_total / 1e6 / seconds
    return shares | {"outside": 1 - sum(shares.values())}
