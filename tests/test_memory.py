"""Freed memory goes back to the system."""

import sys
from pathlib import Path

import pytest
import torch

from depthstress.memory import free_bytes, trim_heap

linux = pytest.mark.skipif(sys.platform != "linux", reason="reads /proc")


def resident() -> int:
    line = next(line for line in Path("/proc/self/status").read_text().splitlines() if line.startswith("VmRSS"))
    return int(line.split()[1]) * 1024


@linux
def test_holes_are_given_back():
    blocks = [torch.ones(2**14) for _ in range(4096)]  # 256 MiB of 64 KiB each
    kept = blocks[::32]  # that hold the heap up at its top
    del blocks
    before = resident()
    trim_heap()
    assert before - resident() > 2**27 and len(kept) == 128


@linux
def test_free_memory_is_less_than_the_machine_has():
    total = next(int(line.split()[1]) * 1024 for line in Path("/proc/meminfo").read_text().splitlines() if line.startswith("MemTotal"))
    assert 0 < free_bytes(torch.device("cpu")) < total
