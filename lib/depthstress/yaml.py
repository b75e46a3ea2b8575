"""YAML 1.2, read safely.

ruamel.yaml rather than PyYAML, which reads YAML 1.1: there `2e-4` is a text, `no` is False and a key that
stands twice is silently overwritten.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

from ruamel.yaml import YAML
from ruamel.yaml.error import YAMLError


def read_yaml(path: Path) -> dict[str, Any]:
    """A file's mapping. Raises ValueError that names the file where it is no YAML mapping."""
    try:
        content = YAML(typ="safe", pure=True).load(path.read_text(encoding="utf-8"))
    except (YAMLError, UnicodeDecodeError, RecursionError) as error:
        raise ValueError(f"{path.name} is no valid YAML: {error}") from None
    if not isinstance(content, dict):
        raise ValueError(f"{path.name} must hold a mapping, not {type(content).__name__}")
    return content
