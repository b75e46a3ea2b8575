"""Stages: marked done last, stale when anything before them changed, recorded in manifest and log."""

import json

import pytest

from depthstress.data import make_data
from depthstress.inputs import WEIGHTS
from depthstress.stages import Stage, read_log, read_manifest, stage_is_done


@pytest.fixture
def done(run):
    stage = Stage(run, "01_data")
    make_data(run, 101)
    stage.finish(rows=48)
    return run


def test_a_finished_stage_is_done(done):
    assert stage_is_done(done, "01_data")
    assert not stage_is_done(done, "02_train")


def test_changed_files_settings_and_code_make_it_stale(done, monkeypatch):
    path = done.data(101).folder / "train.jsonl"
    content = path.read_bytes()
    path.write_bytes(content[:-2])
    assert not stage_is_done(done, "01_data")
    path.write_bytes(content)
    assert stage_is_done(done, "01_data")
    monkeypatch.setattr("depthstress.stages.sources_sha256", lambda *parts: "other")
    assert not stage_is_done(done, "01_data")
    monkeypatch.undo()
    done.suite = done.suite.model_copy(update={"title": "Another"})
    assert not stage_is_done(done, "01_data")


def test_a_later_stage_depends_on_the_one_before(done):
    Stage(done, "02_train").finish(rows=0)
    assert stage_is_done(done, "02_train")
    make_again = Stage(done, "01_data")
    (done.data(101).folder / "extra.jsonl").write_text("{}\n")
    make_again.finish(rows=49)
    assert not stage_is_done(done, "02_train")


def test_a_limited_stage_is_recorded_but_not_done(run):
    make_data(run, 101)
    Stage(run, "01_data", whole=False).finish(rows=5)
    assert not stage_is_done(run, "01_data")
    assert read_manifest(run)["stages"]["01_data"]["whole"] is False


def test_the_manifest_says_where_everything_came_from(done):
    manifest = json.loads((done.folder / "manifest.json").read_text())
    assert manifest["suite"] == json.loads(done.suite.model_dump_json())
    stage = manifest["stages"]["01_data"]
    assert stage["rows"] == 48
    assert stage["versions"]["torch"]
    assert stage["hardware"]["cores"] >= 1
    assert set(manifest["files"]) == {f"data/s101/{path.name}" for path in done.data(101).files()}
    assert "01_data" in (done.folder / "log.md").read_text()
    assert [(row["stage"], row["rows"]) for row in read_log(done)] == [("01_data", "48")]
    assert str(done.folder.parent) not in (done.folder / "manifest.json").read_text()


def test_the_manifest_keeps_the_hash_of_weights_that_are_gone(done):
    for adapter in done.adapters:
        unit = done.adapter(*adapter)
        unit.folder.mkdir(parents=True)
        (unit.folder / WEIGHTS).write_text(unit.name)
        unit.mark("inputs")
    Stage(done, "02_train").finish(rows=0)
    before = read_manifest(done)["files"]
    assert len([name for name in before if name.endswith(WEIGHTS)]) == len(done.adapters)
    for adapter in done.adapters:
        (done.adapter(*adapter).folder / WEIGHTS).unlink()
    Stage(done, "02_train").finish(rows=0)
    assert read_manifest(done)["files"] == before
    assert stage_is_done(done, "02_train")


def test_a_damaged_manifest_is_written_anew(done):
    (done.folder / "manifest.json").write_text("{")
    Stage(done, "01_data").finish(rows=48)
    assert read_manifest(done)["stages"]["01_data"]["rows"] == 48
