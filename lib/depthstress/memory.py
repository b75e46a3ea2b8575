"""Memory that new tensors can have, and freed memory that the process keeps."""

from __future__ import annotations

import ctypes
import sys

import torch


def free_bytes(device: torch.device) -> int:
    """Memory that new tensors can have: what CUDA reports, or what Linux counts as available."""
    if device.type == "cuda":
        return torch.cuda.mem_get_info(device)[0]
    with open("/proc/meminfo", encoding="ascii") as file:
        return next(int(line.split()[1]) * 1024 for line in file if line.startswith("MemAvailable:"))


def trim_heap() -> None:
    """Give freed memory back to the system, where the C library can (glibc): tensors of changing sizes leave holes that
    the next adapter's do not fit in."""
    if sys.platform == "linux":
        getattr(ctypes.CDLL(None), "malloc_trim", lambda _: None)(0)
