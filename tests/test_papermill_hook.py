"""What the hook makes of papermill's command line."""

import os
from pathlib import Path

import click
import pytest

from depthstress import papermill_hook
from depthstress.papermill_hook import OPTIONS_WITH_VALUES, completed, read
from depthstress.runs import OUTPUTS
from depthstress.stages import NOTEBOOKS


@pytest.fixture
def in_notebooks(monkeypatch, tmp_path):
    monkeypatch.chdir(NOTEBOOKS)
    monkeypatch.setattr("depthstress.runs.OUTPUTS", tmp_path)
    return tmp_path


def test_the_options_are_papermills_own():
    from papermill.cli import papermill

    for option in papermill.params:
        if isinstance(option, click.Option):
            takes = 0 if option.is_flag or option.count or option.is_eager and option.expose_value is False else option.nargs
            for name in option.opts:
                assert OPTIONS_WITH_VALUES.get(name, 0) == takes, name


def test_the_output_path_is_supplied(in_notebooks):
    expected = os.path.relpath(in_notebooks / "main" / "notebooks" / "03_eval.ipynb")
    assert completed(["03_eval.ipynb", "-p", "suite", "main"]) == ["03_eval.ipynb", expected, "-p", "suite", "main"]
    assert completed(["-p", "suite", "main", "./03_eval.ipynb"]) == ["-p", "suite", "main", "./03_eval.ipynb", expected]
    assert Path(expected).parent.is_dir()


@pytest.mark.parametrize(("arguments", "folder"), [
    ([], "local"),
    (["-psuite", "main"], "main"),
    (["-r", "suite", "main", "--log-output"], "main"),
    (["--parameters", "suite", "main"], "main"),
    (["-y", "{suite: pilot, limit: 3}"], "pilot"),
    (["--parameters_yaml={suite: pilot}"], "pilot"),
    (["-b", "c3VpdGU6IG1haW4="], "main"),
    (["-k", "python3", "-p", "suite", "main", "-p", "model", "smollm2-135m"], "main-smollm2-135m"),
    (["-p", "model", "smollm2-135m"], "local"),
    (["-p", "model", "None"], "local"),
    (["-p", "suite", "smoke", "-y", "suite: main"], "smoke"),  # papermill: -p overrules -y, -r overrules -p
    (["-r", "suite", "smoke", "-p", "suite", "main"], "smoke"),
])  # fmt: skip
def test_the_folder_follows_the_parameters(in_notebooks, arguments, folder):
    assert completed(["03_eval.ipynb", *arguments])[1] == os.path.relpath(in_notebooks / folder / "notebooks" / "03_eval.ipynb")


def test_jobs_of_one_run_keep_their_copies_apart(in_notebooks):
    output = completed(["02_train.ipynb", "-p", "suite", "main", "-p", "seeds", "[202]", "-p", "arms", "program_stack"])[1]
    assert output.endswith("main/notebooks/02_train-program_stack-s202.ipynb")


def test_a_parameters_file_is_read(in_notebooks, tmp_path):
    (tmp_path / "p.yaml").write_text("suite: main\n")
    assert "main" in completed(["03_eval.ipynb", "-f", str(tmp_path / "p.yaml")])[1]


@pytest.mark.parametrize("arguments", [
    [], ["--help"], ["03_eval.ipynb", "--help-notebook"], ["03_eval.ipynb", "out.ipynb", "-p", "suite", "main"], ["elsewhere.ipynb"], ["-"],
])  # fmt: skip
def test_everything_else_is_left_alone(in_notebooks, arguments):
    assert completed(list(arguments)) == arguments


def test_a_notebook_of_the_same_name_elsewhere_is_left_alone(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "03_eval.ipynb").write_text("{}")
    assert completed(["03_eval.ipynb"]) == ["03_eval.ipynb"]


def test_an_unknown_parameter_or_suite_is_named(in_notebooks):
    with pytest.raises(SystemExit, match="03_eval.ipynb knows no parameter 'suit'; it knows arms, limit, model, seeds, suite"):
        completed(["03_eval.ipynb", "-p", "suit", "main"])
    with pytest.raises(SystemExit, match="knows no parameter 'limits'"):
        completed(["03_eval.ipynb", "out.ipynb", "-y", "{limits: 3}"])
    with pytest.raises(SystemExit, match="knows no parameter '1', 'a'"):
        completed(["03_eval.ipynb", "-y", "{1: 2, a: 3}"])
    for model in ("nosuch", "a/../../../esc", ""):
        with pytest.raises(SystemExit, match="model"):
            completed(["03_eval.ipynb", "-p", "model", model])
    assert not list(in_notebooks.parent.glob("*esc*")) and not list(in_notebooks.iterdir())
    with pytest.raises(SystemExit, match="there is no suite 'mian'"):
        completed(["03_eval.ipynb", "-p", "suite", "mian"])


def test_arguments_that_papermill_itself_will_refuse_do_not_break_the_hook(in_notebooks):
    for arguments in (["-p"], ["-p", "suite"], ["-y", "{"], ["-y", "- 1"], ["-f", "/nowhere"], ["-b", "%%"], ["--nope"]):
        read(["03_eval.ipynb", *arguments])


def test_the_handler_reads_notebooks_by_name():
    assert papermill_hook.handler.listdir("depthstress://")[0] == "depthstress://01_data"
    assert '"cells"' in papermill_hook.handler.read("depthstress://03_eval")
    with pytest.raises(PermissionError):
        papermill_hook.handler.write("", "depthstress://03_eval")
    assert OUTPUTS.name == "outputs" or "DEPTHSTRESS_OUTPUTS" in os.environ
