"""The stored notebooks: clean, numbered, and readable."""

import ast

import nbformat
import pytest

from depthstress.stages import NOTEBOOKS, STAGES

PATHS = sorted(NOTEBOOKS.glob("*.ipynb"))
EXPECTED = {
    "01_data": {"suite", "model", "seeds"},
    "02_train": {"suite", "model", "seeds", "arms"},
    "03_eval": {"suite", "model", "seeds", "arms", "limit"},
    "04_analysis": {"suite", "model", "seeds", "arms"},
    "05_report": {"suite", "model"},
}


def code_cells(book):
    return [cell for cell in book.cells if cell.cell_type == "code"]


def test_there_is_one_for_every_stage():
    assert [path.stem for path in PATHS] == list(STAGES)


@pytest.mark.parametrize("path", PATHS, ids=lambda path: path.stem)
class TestStored:
    @pytest.fixture
    def book(self, path):
        return nbformat.read(path, as_version=4)

    def test_is_valid_and_has_no_outputs(self, book):
        nbformat.validate(book)
        assert all(not cell.outputs and cell.execution_count is None for cell in code_cells(book))
        assert book.metadata.kernelspec.name == "python3"

    def test_the_first_code_cell_holds_the_parameters(self, book, path):
        cell = code_cells(book)[0]
        assert cell.metadata.tags == ["parameters"]
        assigned = {node.targets[0].id: ast.literal_eval(node.value) for node in ast.parse(cell.source).body}
        assert set(assigned) == EXPECTED[path.stem]
        assert all("  # " in line for line in cell.source.splitlines())

    def test_cells_are_short_and_prose_stands_before_code(self, book):
        assert book.cells[0].source.startswith("# ")
        assert all(len(cell.source.splitlines()) <= 20 for cell in code_cells(book))
        assert sum(cell.cell_type == "markdown" for cell in book.cells) >= len(code_cells(book)) * 0.6
        assert not any("def " in cell.source for cell in code_cells(book))

    def test_it_ends_with_what_it_wrote(self, book):
        assert "session.stage.finish(" in code_cells(book)[-1].source
