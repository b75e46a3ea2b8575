"""The whole path with the bundled model: the literal commands, kills, and the same bytes in the end.

One run goes by papermill's command line, notebook by notebook, on a terminal, with its input closed and with
its output redirected, and is killed twice; the other by the study runner, undisturbed. Both must agree.
"""

from __future__ import annotations

import json
import os
import pty
import subprocess
import sys
import time
from pathlib import Path

import nbformat
import psutil
import pytest

from depthstress.stages import NOTEBOOKS, STAGES

pytestmark = pytest.mark.slow
PAPERMILL = [str(Path(sys.executable).parent / "papermill")]
ARMS = ["answer_only", "program_stack"]
SUITE = ["-p", "suite", "smoke"]
SOME_ARMS = ["-p", "arms", json.dumps(ARMS)]


def start(outputs: Path, command: list[str], cwd: Path = NOTEBOOKS, **streams) -> subprocess.Popen:
    return subprocess.Popen(command, cwd=cwd, env=os.environ | {"DEPTHSTRESS_OUTPUTS": str(outputs)}, **streams)


def on_a_terminal(outputs: Path, command: list[str]) -> tuple[int, str]:
    """Run a command with a pseudo-terminal as all its streams."""
    ours, theirs = pty.openpty()
    process = start(outputs, command, stdin=theirs, stdout=theirs, stderr=theirs)
    os.close(theirs)
    shown = b""
    while True:
        try:
            shown += (block := os.read(ours, 65536))
        except OSError:  # the other side is closed
            break
        if not block:
            break
    os.close(ours)
    return process.wait(), shown.decode(errors="replace")


def redirected(outputs: Path, command: list[str], log: Path, **streams) -> int:
    """Run a command with its output going to a file, as a batch job does."""
    with log.open("ab") as file:
        return start(outputs, command, stdout=file, stderr=subprocess.STDOUT, **streams).wait()


def input_closed(outputs: Path, command: list[str], log: Path) -> int:
    """Run a command whose standard input is closed (not empty: closed)."""
    return redirected(outputs, ["bash", "-c", 'exec "$@" <&-', "bash", *command], log)


def kill_when(process: subprocess.Popen, condition) -> None:
    """Kill a process and its kernel, without warning, as soon as the condition holds."""
    while process.poll() is None and not condition():
        time.sleep(0.1)
    assert process.poll() is None, "it ended before it could be killed"
    family = [psutil.Process(process.pid), *psutil.Process(process.pid).children(recursive=True)]
    for member in family:
        member.kill()
    psutil.wait_procs(family, timeout=30)
    process.wait()


@pytest.fixture(scope="module")
def disturbed(tmp_path_factory) -> Path:
    """Suite smoke with two arms by papermill, killed in training and in evaluation, and continued."""
    outputs = tmp_path_factory.mktemp("disturbed")
    folder, log = outputs / "smoke", outputs / "log"

    code, shown = on_a_terminal(outputs, [*PAPERMILL, "01_data.ipynb", *SUITE])
    assert code == 0, shown

    train = [*PAPERMILL, "02_train.ipynb", *SUITE, *SOME_ARMS]
    process = start(outputs, train, stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    kill_when(process, (folder / "adapters" / "answer_only-s101" / "done.json").exists)
    first_adapter = (folder / "adapters" / "answer_only-s101" / "done.json").stat().st_mtime_ns
    assert input_closed(outputs, train, log) == 0, log.read_text()
    assert (folder / "adapters" / "answer_only-s101" / "done.json").stat().st_mtime_ns == first_adapter, "trained twice"

    evaluate = [*PAPERMILL, "03_eval.ipynb", *SUITE, *SOME_ARMS]
    process = start(outputs, evaluate, stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    kill_when(process, lambda: list((folder / "generations").glob("*/generations.jsonl")) != [])
    code, shown = on_a_terminal(outputs, evaluate)
    assert code == 0, shown

    assert redirected(outputs, [*PAPERMILL, "04_analysis.ipynb", *SUITE, *SOME_ARMS], log, stdin=subprocess.PIPE) == 0, log.read_text()
    assert redirected(outputs, [*PAPERMILL, "05_report.ipynb", *SUITE], log, stdin=subprocess.DEVNULL) == 0, log.read_text()
    return folder


@pytest.fixture(scope="module")
def undisturbed(tmp_path_factory) -> Path:
    """The whole suite smoke by the study runner."""
    outputs = tmp_path_factory.mktemp("undisturbed")
    assert redirected(outputs, [sys.executable, "-m", "depthstress.study", "smoke"], outputs / "log") == 0, (outputs / "log").read_text()
    return outputs / "smoke"


def test_killed_and_continued_gives_the_same_bytes(disturbed, undisturbed):
    for kind in ("data", "adapters", "generations"):
        names = sorted(p.relative_to(disturbed) for p in (disturbed / kind).rglob("*") if p.is_file())
        assert len(names) >= 4
        for name in names:
            assert (disturbed / name).read_bytes() == (undisturbed / name).read_bytes(), name
    assert not (disturbed / "stale").exists()


def test_every_notebook_is_kept_as_it_ran(disturbed, undisturbed):
    for folder in (disturbed, undisturbed):
        for stage in STAGES:
            copies = list((folder / "notebooks").glob(f"{stage}*.ipynb"))  # a part of a run has its arms in the name
            assert len(copies) == 1
            book = nbformat.read(copies[0], as_version=4)
            assert all(cell.execution_count for cell in book.cells if cell.cell_type == "code"), stage
    book = nbformat.read(undisturbed / "notebooks" / "02_train.ipynb", as_version=4)
    texts = [output.get("data", {}).get("text/plain", "") for cell in book.cells if cell.cell_type == "code" for output in cell.outputs]
    assert any("training: 10 of 10 updates, done after" in text for text in texts)


def test_nf4_really_ran(undisturbed):
    config = json.loads((undisturbed / "adapters" / "program_stack-s101" / "provenance.json").read_text())
    assert config["model"]["weights"] == "nf4"
    book = (undisturbed / "notebooks" / "02_train.ipynb").read_text()
    # on a CPU the weights are held rounded to NF4 and back; on CUDA in 4 bits
    assert "rounded to NF4: no block of 64 weights has more than 16 values" in book or "Linear4bit" in book


def test_the_outputs_are_complete(undisturbed):
    expected = {
        "details",
        "metrics",
        "summary",
        "coverage",
        "comparisons",
        "taught",
        "survival",
        "costs",
        "training_log",
        "checkpoints",
        "completeness",
    }
    assert {path.stem for path in (undisturbed / "analysis").glob("*.csv")} == expected
    # no coverage: it compares a training with the suite's own, both decoded freely
    assert len(list((undisturbed / "figures").glob("*.svg"))) == 8
    manifest = json.loads((undisturbed / "manifest.json").read_text())
    assert set(manifest["stages"]) == set(STAGES)
    assert "report.html" in manifest["files"]
    assert (undisturbed / "log.md").read_text().count("\n| 20") == 5
    report = (undisturbed / "report.html").read_text()
    assert "Does a language model execute the procedure" in report


def test_what_is_done_is_not_done_again(undisturbed):
    started = time.monotonic()
    log = undisturbed.parent / "again"
    assert redirected(undisturbed.parent, [sys.executable, "-m", "depthstress.study", "smoke"], log) == 0
    assert log.read_text().count("done already") == 5
    assert "report.html" in log.read_text().splitlines()[-1]
    assert time.monotonic() - started < 60


def test_a_missing_input_fails_and_names_the_command(tmp_path):
    log = tmp_path / "log"
    assert redirected(tmp_path, [*PAPERMILL, "04_analysis.ipynb", *SUITE], log, stdin=subprocess.DEVNULL) != 0
    assert "has no generations" in log.read_text() and "papermill 03_eval.ipynb -p suite smoke" in log.read_text()
    book = nbformat.read(tmp_path / "smoke" / "notebooks" / "04_analysis.ipynb", as_version=4)
    assert any(output.output_type == "error" for cell in book.cells if cell.cell_type == "code" for output in cell.outputs)


def test_main_without_a_gpu_says_what_to_run_instead(tmp_path):
    import torch

    if torch.cuda.is_available():
        pytest.skip("this machine has a GPU")
    log = tmp_path / "log"
    assert redirected(tmp_path, [sys.executable, "-m", "depthstress.study", "main"], log) != 0
    assert "needs an NVIDIA GPU" in log.read_text() and "make study" in log.read_text()
    assert redirected(tmp_path, [*PAPERMILL, "02_train.ipynb", "-p", "suite", "main"], log, stdin=subprocess.DEVNULL) != 0
    assert log.read_text().count("needs an NVIDIA GPU") >= 2


@pytest.mark.parametrize(("parameters", "message"), [
    (["-p", "suit", "smoke"], "knows no parameter 'suit'"),
    (["-p", "suite", "mian"], "there is no suite 'mian'"),
])  # fmt: skip
def test_a_wrong_parameter_is_refused_before_any_work(tmp_path, parameters, message):
    log = tmp_path / "log"
    assert redirected(tmp_path, [*PAPERMILL, "01_data.ipynb", *parameters], log, stdin=subprocess.DEVNULL) != 0
    assert message in log.read_text()
    assert not list(tmp_path.rglob("*.jsonl"))


def test_papermill_as_a_library_gets_the_same_checks(tmp_path):
    script = "import sys, papermill; papermill.execute_notebook(sys.argv[1], sys.argv[2], parameters={'suit': 'smoke'}, progress_bar=False)"
    log = tmp_path / "log"
    command = [sys.executable, "-c", script, str(NOTEBOOKS / "01_data.ipynb"), str(tmp_path / "out.ipynb")]
    assert redirected(tmp_path, command, log) != 0
    assert "01_data knows no parameter 'suit'" in log.read_text()


def test_a_notebook_runs_from_any_folder_without_papermill(tmp_path):
    script = "import sys, nbformat, nbclient; nbclient.NotebookClient(nbformat.read(sys.argv[1], 4), resources={'metadata': {'path': sys.argv[2]}}).execute()"
    log = tmp_path / "log"
    code = redirected(tmp_path / "outputs", [sys.executable, "-c", script, str(NOTEBOOKS / "01_data.ipynb"), str(tmp_path)], log)
    assert code == 0, log.read_text()
    assert len(list((tmp_path / "outputs" / "local" / "data" / "s101").glob("*.jsonl"))) == 11
