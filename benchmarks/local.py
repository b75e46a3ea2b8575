"""Suite local from nothing to its report: wall time, and the memory of its largest process.

The five notebooks run as `make study` runs them, in a temporary outputs folder, with the model already converted. The peak
is the greatest resident size of any process below (the kernels that train and evaluate), as the operating system counts it.
"""

from __future__ import annotations

import os
import subprocess
import tempfile
import time
from pathlib import Path

from depthstress.bundled import local_folder
from depthstress.suites import ROOT, load_model, load_suite

from .results import Results


def measure(results: Results, python: Path, quick: bool) -> None:
    """A repetition: the suite, or suite smoke where it is only tried."""
    suite = load_suite("smoke" if quick else "local")
    if (model := load_model(suite.model)).source.wheel:
        local_folder(model)
    for _ in results.missing("local"):
        results.add("local", study(python, suite.name))


def study(python: Path, suite: str) -> dict:
    """Seconds, and peak bytes of one process, of a suite's notebooks. Raises RuntimeError where they did not end well."""
    with tempfile.TemporaryDirectory() as folder:
        environment = os.environ | {"DEPTHSTRESS_OUTPUTS": folder}
        started = time.perf_counter()
        # the caller has to be small: a child starts with its parent's peak
        command = [str(python.absolute()), "-m", "depthstress.study", suite]
        child = subprocess.Popen(command, cwd=ROOT, env=environment, stdin=subprocess.DEVNULL)
        _, status, usage = os.wait4(child.pid, 0)
        child.returncode = os.waitstatus_to_exitcode(status)
        if child.returncode:
            raise RuntimeError(f"suite {suite} ended with {child.returncode}; its own lines above say why")
        return {"suite": suite, "seconds": time.perf_counter() - started, "peak_bytes": usage.ru_maxrss * 1024}
