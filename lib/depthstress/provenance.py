"""Where a result came from: versions, code, hardware."""

from __future__ import annotations

import os
import platform
import subprocess
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path

from .suites import ROOT

PACKAGES = ("depthstress", "torch", "transformers", "peft", "bitsandbytes", "papermill", "nbconvert", "pandas", "seaborn")


def versions(packages: tuple[str, ...] = PACKAGES) -> dict[str, str]:
    """The versions of Python and of these packages, without importing them."""
    found = {"python": platform.python_version()}
    for name in packages:
        try:
            found[name] = version(name)
        except PackageNotFoundError:
            found[name] = "not installed"
    return found


def git_commit() -> str:
    """The commit of the code, with `+changes` where files that git tracks differ from it; "unknown" outside git."""
    commit = _git("rev-parse", "HEAD")
    if not commit:
        return "unknown"
    changed = _git("status", "--porcelain", "--untracked-files=no", "--", "lib", "notebooks", "params")
    return commit + ("+changes" if changed else "")


def _git(*arguments: str) -> str:
    try:
        result = subprocess.run(["git", "-C", str(ROOT), *arguments], capture_output=True, text=True, timeout=20)
    except (OSError, subprocess.TimeoutExpired):
        return ""
    return result.stdout.strip() if result.returncode == 0 else ""


def hardware() -> dict[str, object]:
    """The machine in words: processor, cores that this process may use, memory in GiB, GPUs."""
    return {
        "processor": _processor(),
        "cores": len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count(),
        "memory_gib": round(os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") / 2**30, 1),
        "system": f"{platform.system()} {platform.machine()}",
        "gpus": _gpus(),
    }


def _processor() -> str:
    try:
        lines = Path("/proc/cpuinfo").read_text(encoding="utf-8").splitlines()
    except OSError:
        return platform.processor() or "unknown"
    return next((line.partition(":")[2].strip() for line in lines if line.startswith("model name")), "unknown")


def _gpus() -> list[str]:
    try:
        result = subprocess.run(["nvidia-smi", "--query-gpu=name,memory.total", "--format=csv,noheader"],
                                capture_output=True, text=True, timeout=20)  # fmt: skip
    except (OSError, subprocess.TimeoutExpired):
        return []
    return result.stdout.strip().splitlines() if result.returncode == 0 else []
