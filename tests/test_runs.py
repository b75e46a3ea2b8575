"""Units on disk: whole or not there, whatever happens in between."""

import json
import multiprocessing
import os
import shutil
import time

import pytest

from depthstress.data import make_data
from depthstress.files import write_bytes, write_csv, write_jsonl, write_text
from depthstress.inputs import data_inputs
from depthstress.runs import Run
from depthstress.suites import SettingsError
from depthstress.units import MissingInput


def make(run, inputs, content="x", whole=True):
    unit = run.data(1)
    with unit.make(inputs) as work:
        if work:
            write_text(unit.folder / "a.txt", content)
            work.whole = whole
    return work.needed


def test_a_unit_is_made_once(run):
    assert make(run, {"n": 1})
    assert not make(run, {"n": 1}, content="another")
    assert (run.data(1).folder / "a.txt").read_text() == "x"


def test_other_inputs_make_it_again_and_keep_the_old(run, capsys):
    make(run, {"n": 1}, "old")
    assert make(run, {"n": 2}, "new")
    assert (run.data(1).folder / "a.txt").read_text() == "new"
    assert (run.folder / "stale" / "data-s1-1" / "a.txt").read_text() == "old"
    assert "data/s1: it was made with other settings or from other inputs; set aside in stale/data-s1-1" in capsys.readouterr().out


@pytest.mark.parametrize(("damage", "why"), [
    (lambda f: (f / "a.txt").write_text("y"), "a.txt was changed"),
    (lambda f: (f / "a.txt").write_text(""), "a.txt was changed"),
    (lambda f: (f / "a.txt").unlink(), "a.txt is missing"),
    (lambda f: (f / "done.json").write_text("{"), "its done.json is damaged"),
    (lambda f: (f / "done.json").write_text("[]"), "its done.json is damaged"),
    (lambda f: (f / "done.json").unlink(), "it is not marked as done"),
])  # fmt: skip
def test_damage_is_found_and_the_unit_made_again(run, damage, why):
    make(run, {"n": 1})
    damage(run.data(1).folder)
    assert run.data(1).problem({"n": 1}) == why
    assert make(run, {"n": 1})
    assert run.data(1).is_done({"n": 1})
    assert len(list((run.folder / "stale").iterdir())) == 1


def test_an_unfinished_unit_is_not_done_and_what_it_has_is_kept(run):
    make(run, {"n": 1}, whole=False)
    assert not run.data(1).is_done({"n": 1})
    assert (run.data(1).folder / "a.txt").exists()
    assert make(run, {"n": 1})
    assert not (run.folder / "stale").exists()


def test_what_was_begun_from_other_inputs_is_set_aside(run):
    make(run, {"n": 1}, whole=False)
    make(run, {"n": 2}, whole=False)
    assert (run.folder / "stale" / "data-s1-1" / "a.txt").exists()


def test_a_kill_while_marking_loses_nothing(run, monkeypatch):
    """Before the marker the unit is unfinished and kept; after it, it is done."""
    unit = run.data(1)
    with monkeypatch.context() as patched:
        patched.setattr("depthstress.units.write_json", lambda *arguments: (_ for _ in ()).throw(KeyboardInterrupt))
        with pytest.raises(KeyboardInterrupt):
            make(run, {"n": 1})
    assert unit.begun({"n": 1}) and (unit.folder / "a.txt").exists()
    make(run, {"n": 1})
    assert not (run.folder / "stale").exists()
    write_text(unit.folder / ".inputs", "left behind by a kill")
    assert unit.is_done({"n": 1})


def test_a_kill_while_beginning_leaves_nothing_to_set_aside(run, monkeypatch):
    with monkeypatch.context() as patched:
        patched.setattr("os.replace", lambda *names: os._exit(1))
        killed = multiprocessing.get_context("fork").Process(target=make, args=(run, {"n": 1}))
        killed.start()
        killed.join()
    assert killed.exitcode == 1 and list(run.data(1).folder.iterdir())
    assert make(run, {"n": 1})
    assert not (run.folder / "stale").exists()
    assert [path.name for path in run.data(1).folder.iterdir() if path.name.startswith(".")] == []


def test_what_is_set_aside_never_collides(run):
    for n in range(3):
        make(run, {"n": n})
    shutil.rmtree(run.folder / "stale" / "data-s1-1")
    make(run, {"n": 3})
    make(run, {"n": 4})
    assert sorted(path.name for path in (run.folder / "stale").iterdir()) == ["data-s1-1", "data-s1-2", "data-s1-3"]


def test_a_stray_file_changes_nothing(run):
    make(run, {"n": 1})
    digest = run.data(1).marked()
    (run.data(1).folder / "Thumbs.db").write_bytes(b"x")
    assert run.data(1).is_done({"n": 1})
    assert run.data(1).marked() == digest


def test_a_failure_inside_leaves_no_marker(run):
    unit = run.data(1)
    with pytest.raises(RuntimeError), unit.make({}) as work:
        assert work
        raise RuntimeError
    assert unit.problem({}) == "missing"


def test_a_failed_write_leaves_the_old_file_and_no_litter(tmp_path, monkeypatch):
    write_text(tmp_path / "a", "old")
    monkeypatch.setattr("os.fsync", lambda handle: (_ for _ in ()).throw(OSError(28, "No space left on device")))
    with pytest.raises(OSError, match="No space left"):
        write_bytes(tmp_path / "a", b"new")
    assert [p.name for p in tmp_path.iterdir()] == ["a"]
    assert (tmp_path / "a").read_text() == "old"


def _make_slowly(outputs, results):
    run = Run("smoke", outputs=outputs)
    unit = run.data(1)
    with unit.make({}) as work:
        if work:
            time.sleep(0.5)
            write_text(unit.folder / "a.txt", "x")
    results.put(work.needed)


def test_two_processes_make_a_unit_once(tmp_path, capfd):
    context = multiprocessing.get_context("spawn")
    results = context.Queue()
    processes = [context.Process(target=_make_slowly, args=(tmp_path, results)) for _ in range(2)]
    for process in processes:
        process.start()
    for process in processes:
        process.join(60)
    assert "data/s1: another process works on it; waiting" in capfd.readouterr().out
    assert sorted([results.get(), results.get()]) == [False, True]


def test_data_that_is_missing_names_the_command(run):
    with pytest.raises(MissingInput, match="cd notebooks && papermill 01_data.ipynb -p suite smoke"):
        run.examples("train", 101)


def test_data_is_the_same_bytes_again(run, tmp_path):
    other = Run("smoke", outputs=tmp_path / "other")
    assert make_data(run, 101)
    assert not make_data(run, 101)
    make_data(other, 101)
    files = [path.name for path in run.data(101).files()]
    assert files == sorted([*(f"{s.name}.jsonl" for s in run.suite.splits), "train.jsonl", "train-full.jsonl"])
    for name in files:
        assert (run.data(101).folder / name).read_bytes() == (other.data(101).folder / name).read_bytes()
    assert run.data(101).is_done(data_inputs(run, 101))


def test_parts_of_a_suite_are_checked(tmp_path):
    with pytest.raises(ValueError, match=r"arms: suite smoke has no \['nope'\]; it has"):
        Run("smoke", arms=["nope"])
    with pytest.raises(ValueError, match=r"seeds: suite smoke has no \[7\]; it has \[101\]"):
        Run("smoke", seeds=[7])
    with pytest.raises(SettingsError, match="no suite 'nope'"):
        Run("nope")
    assert Run("main", arms=["program_stack"], seeds=[202]).adapters == [("program_stack", 202)]


def test_another_model_has_its_own_folder(tmp_path):
    assert Run("smoke", outputs=tmp_path).folder.name == "smoke"
    assert Run("smoke", "smollm2-135m", outputs=tmp_path).folder.name == "smoke"
    assert Run("smoke", "qwen3-4b", outputs=tmp_path).folder.name == "smoke-qwen3-4b"
    assert Run("smoke", "qwen3-4b").command == "-p suite smoke -p model qwen3-4b"


def test_any_text_survives_a_jsonl_file(tmp_path):
    odd = 'line\nbreak \u2028 \ud800 "NA" 007 \x1b[31m'
    write_jsonl(tmp_path / "a.jsonl", [{"text": odd}])
    assert json.loads((tmp_path / "a.jsonl").read_text()) == {"text": odd}


def test_a_csv_without_rows_is_an_error(tmp_path):
    with pytest.raises(ValueError, match="a.csv: no rows"):
        write_csv(tmp_path / "a.csv", [])
