"""Nothing heavy is imported by what does not need it."""

import subprocess
import sys

import pytest

HEAVY = {
    "torch",
    "transformers",
    "peft",
    "bitsandbytes",
    "pandas",
    "scipy",
    "statsmodels",
    "matplotlib",
    "seaborn",
    "nbconvert",
    "nbformat",
    "papermill",
}
TABLES = {"pandas", "scipy", "statsmodels"}
FIGURES = TABLES | {"matplotlib", "seaborn"}


def imported(code: str) -> set[str]:
    """The heavy packages that a fresh Python holds after the code."""
    command = f"{code}\nimport sys\nprint(*sorted({HEAVY!r} & set(sys.modules)))"
    return set(subprocess.run([sys.executable, "-c", command], check=True, capture_output=True, text=True).stdout.split())


@pytest.mark.parametrize(("module", "allowed"), [
    ("study", set()),
    ("notebook", set()),
    ("data", set()),
    ("training", {"torch"}),
    ("generation", TABLES | {"torch"}),
    ("scoring", set()),
    ("papermill_hook", set()),
    ("rescore", TABLES),
    ("analysis", TABLES),
    ("report.findings", FIGURES),
    ("report.sections", FIGURES),
])  # fmt: skip
def test_a_module_imports_only_what_it_needs(module, allowed):
    assert imported(f"import depthstress.{module}") <= allowed


def test_a_study_that_is_refused_is_refused_without_them():
    code = "from depthstress.study import main\nassert main(['no-such-suite']) == 2"
    assert not imported(code)
