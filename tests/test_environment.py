"""Two ways to the same environment, and a repository that stands alone."""

import re
import subprocess
import tomllib

import pytest
from ruamel.yaml import YAML

from depthstress.suites import ROOT

LOCK = ROOT / "requirements.lock"


def locked():
    lines = [line for line in LOCK.read_text().splitlines() if line and not line.startswith("#")]
    assert all(re.fullmatch(r"[A-Za-z0-9._-]+==[A-Za-z0-9.]+", line) for line in lines)
    return {re.sub(r"[-_.]+", "-", line.partition("==")[0]).lower(): line.partition("==")[2] for line in lines}


def test_every_direct_dependency_is_locked():
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    wanted = project["dependencies"] + [d for extra in project["optional-dependencies"].values() for d in extra]
    names = {re.sub(r"[-_.]+", "-", re.match(r"[A-Za-z0-9._-]+", d).group()).lower() for d in wanted}
    assert names <= set(locked())


def test_conda_users_get_the_same_pins():
    environment = YAML(typ="safe").load((ROOT / "environment.yml").read_text())
    pip = next(entry["pip"] for entry in environment["dependencies"] if isinstance(entry, dict))
    makefile = (ROOT / "Makefile").read_text()
    assert pip == ["-c requirements.lock", "-e .[dev]"]
    assert "-c requirements.lock -e '.[dev]'" in makefile
    python = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["requires-python"]
    assert f"python{python}" in environment["dependencies"]


def test_what_is_installed_is_what_is_locked():
    from importlib.metadata import version

    for name in ("torch", "transformers", "peft", "bitsandbytes", "papermill", "nbconvert", "pandas"):
        assert version(name).partition("+")[0] == locked()[name]


def test_the_top_level_is_what_it_should_be():
    listed = subprocess.run(["git", "-C", str(ROOT), "ls-files"], capture_output=True, text=True)
    if listed.returncode:
        pytest.skip("not a git checkout")
    folders = {line.partition("/")[0] for line in listed.stdout.splitlines() if "/" in line}
    assert folders <= {"notebooks", "lib", "params", "outputs", "tests", ".ci", "docs", "benchmarks", "checks"}


def test_torch_is_imported_only_where_models_are():
    lib = ROOT / "lib" / "depthstress"
    importing = {
        str(path.relative_to(lib))
        for path in lib.rglob("*.py")
        if re.search(r"^\s*(import|from) (torch|transformers|peft)\b", path.read_text(), re.MULTILINE)
    }
    assert importing == {
        "bundled.py", "constraint.py", "engines/__init__.py", "engines/hf.py", "engines/flat.py", "engines/slots.py", "gated.py", "lora.py", "loss.py", "memory.py",
        "models.py", "norm.py", "packing.py", "prepacked.py", "training.py",
    }  # fmt: skip
