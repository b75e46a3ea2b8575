"""Notebook parameters as papermill delivers them."""

import pytest

from depthstress.notebook import ParameterError, check, injected_names, parameter_defaults
from depthstress.stages import NOTEBOOKS


@pytest.mark.parametrize(("given", "field", "expected"), [
    ("[101]", "seeds", [101]),
    ("101", "seeds", [101]),
    ("101,202", "seeds", [101, 202]),
    (101, "seeds", [101]),
    ([101, 202], "seeds", [101, 202]),
    ((101,), "seeds", [101]),
    ("None", "seeds", None),
    ("program_stack", "arms", ["program_stack"]),
    ("['program_stack', 'answer_only']", "arms", ["program_stack", "answer_only"]),
    ("program_stack, answer_only", "arms", ["program_stack", "answer_only"]),
    ("5", "limit", 5),
    (5, "limit", 5),
    ("None", "model", None),
    ("qwen3-4b", "model", "qwen3-4b"),
])  # fmt: skip
def test_values_arrive_as_text_and_are_accepted(given, field, expected):
    assert getattr(check("03_eval", {"suite": "smoke", field: given}), field) == expected


@pytest.mark.parametrize(("field", "given"), [
    ("limit", ""), ("seeds", ""), ("arms", " "), ("model", ""), ("suite", 7), ("suite", None), ("seeds", "[101"), ("seeds", "one"), ("seeds", [1.5]), ("seeds", []), ("seeds", "[]"), ("seeds", True),
    ("arms", 5), ("limit", "many"), ("limit", 0), ("limit", 2.5), ("limit", "-3"), ("model", 4),
])  # fmt: skip
def test_a_wrong_type_is_named(field, given):
    with pytest.raises(ParameterError, match=f"03_eval: {field} = "):
        check("03_eval", {"suite": "smoke"} | {field: given})


def test_a_list_is_never_evaluated():
    with pytest.raises(ParameterError, match="seeds"):
        check("03_eval", {"suite": "smoke", "seeds": "[__import__('os').getpid()]"})


def test_injected_names_are_found():
    cells = ["", 'suite = "local"', '# Parameters\nsuite = "smoke"\nsuit = "x"\n', "import os\nother = 1"]
    assert injected_names(cells) == {"suite", "suit"}


def test_every_notebooks_defaults_are_valid():
    for path in NOTEBOOKS.glob("*.ipynb"):
        defaults = parameter_defaults(path.read_text())
        assert defaults["suite"] == "local"
        assert check(path.stem, defaults)
