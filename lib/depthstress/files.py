"""Files, written whole or not at all, and hashes of what is in them."""

from __future__ import annotations

import csv
import hashlib
import io
import json
import os
import tempfile
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from functools import cache
from pathlib import Path
from typing import BinaryIO

PACKAGE = Path(__file__).parent


def fingerprint(content: object) -> str:
    """A hash of anything that JSON can hold."""
    text = json.dumps(content, sort_keys=True, ensure_ascii=True, default=str)
    return hashlib.sha256(text.encode()).hexdigest()


def file_sha256(path: Path) -> str:
    """The hash of a file's bytes."""
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def made(folder: Path) -> Path:
    """A folder, made where it is missing."""
    folder.mkdir(parents=True, exist_ok=True)
    return folder


@contextmanager
def replacing(path: Path) -> Iterator[BinaryIO]:
    """A file to be written whole or not at all: under a temporary name beside it, flushed to disk, then renamed."""
    path.parent.mkdir(parents=True, exist_ok=True)
    handle, temporary = tempfile.mkstemp(dir=path.parent, prefix=f".{path.name}.")
    try:
        with os.fdopen(handle, "wb") as file:
            yield file
            file.flush()
            os.fsync(file.fileno())
        os.chmod(temporary, 0o644)
        os.replace(temporary, path)
    except BaseException:
        Path(temporary).unlink(missing_ok=True)
        raise


def write_bytes(path: Path, content: bytes) -> None:
    """Write a file whole or not at all."""
    with replacing(path) as file:
        file.write(content)


def write_text(path: Path, text: str) -> None:
    """`write_bytes` for text; lone surrogates, which no UTF-8 file can hold, are written as `?`."""
    write_bytes(path, text.encode("utf-8", errors="replace"))


def write_json(path: Path, content: object) -> None:
    """JSON, indented, in a fixed key order."""
    write_text(path, json.dumps(content, indent=1, sort_keys=True, default=str) + "\n")


def write_jsonl(path: Path, rows: Iterable[dict]) -> None:
    """One JSON object a line; ASCII, so that any text survives."""
    write_text(path, "".join(json_line(row) for row in rows))


def json_line(row: dict) -> str:
    """A row as one line of a JSONL file."""
    return json.dumps(row, ensure_ascii=True) + "\n"


def read_jsonl(path: Path) -> list[dict]:
    """The rows of a JSONL file."""
    return [json.loads(line) for line in path.read_text(encoding="utf-8").splitlines() if line]


def write_csv(path: Path, rows: list[dict]) -> None:
    """A CSV with the first row's keys as its header; None is an empty field. Raises ValueError without rows."""
    if not rows:
        raise ValueError(f"{path.name}: no rows to write")
    buffer = io.StringIO()
    writer = csv.DictWriter(buffer, fieldnames=list(rows[0]), lineterminator="\n")
    writer.writeheader()
    writer.writerows(rows)
    write_text(path, buffer.getvalue())


@cache
def sources_sha256(*parts: str) -> str:
    """A hash over the package's sources and data below these files and folders; "." for all of it."""
    suffixes = {".py", ".yaml", ".csv", ".j2", ".css", ".js", ".json"}
    roots = [PACKAGE / part for part in parts]
    found = {path for root in roots for path in ([root] if root.is_file() else root.rglob("*")) if path.suffix in suffixes}
    return fingerprint({str(path.relative_to(PACKAGE)): file_sha256(path) for path in sorted(found)})
