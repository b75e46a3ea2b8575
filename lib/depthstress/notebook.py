"""What every notebook begins with: its parameters checked, its versions shown, its run opened."""

from __future__ import annotations

import ast
import json
from collections.abc import Iterable

from IPython.core.getipython import get_ipython
from pydantic import BaseModel, ConfigDict, Field, ValidationError, ValidationInfo, field_validator

from .provenance import versions
from .runs import Run
from .stages import Stage

INJECTED = "# Parameters"  # how the cell that papermill injects begins


class ParameterError(ValueError):
    """A notebook parameter that is unknown or of the wrong type."""


class Parameters(BaseModel):
    """The parameters that notebooks know. papermill's `-p` leaves lists as text and turns `007` into 7."""

    model_config = ConfigDict(extra="forbid", strict=True)
    suite: str
    model: str | None = None
    seeds: list[int] | None = Field(default=None, min_length=1)
    arms: list[str] | None = Field(default=None, min_length=1)
    limit: int | None = Field(default=None, ge=1)

    @field_validator("model", "seeds", "arms", "limit", mode="before")
    @classmethod
    def _from_text(cls, value: object, field: ValidationInfo) -> object:
        if isinstance(value, str) and value.strip() in ("None", "null"):
            return None
        if isinstance(value, str) and not value.strip():
            raise ValueError("is empty, as from a shell variable that is not set; leave it out for all")
        if field.field_name in ("seeds", "arms"):
            return _list(value)
        return _number(value) if field.field_name == "limit" and isinstance(value, str) else value


def _list(value: object) -> object:
    """A list from a list, a tuple, a single value, or any of them as text; what can't be read stays as it is."""
    if isinstance(value, str):
        text = value.strip()
        try:
            return ast.literal_eval(text) if text.startswith("[") else [_number(part) for part in text.split(",")]
        except (ValueError, SyntaxError):
            return value
    if isinstance(value, tuple):
        return list(value)
    return [value] if isinstance(value, int) and not isinstance(value, bool) else value


def _number(text: str) -> object:
    text = text.strip()
    return int(text) if text.lstrip("-").isascii() and text.lstrip("-").isdigit() else text


class Session:
    """An opened notebook: its run, its limit, its stage."""

    def __init__(self, stage: str, parameters: Parameters) -> None:
        self.run = Run(parameters.suite, parameters.model, parameters.arms, parameters.seeds)
        self.limit = parameters.limit
        self.stage = Stage(self.run, stage, whole=parameters.limit is None)


def start(stage: str, packages: tuple[str, ...], **parameters: object) -> Session:
    """Check a notebook's parameters before any work, show the versions that matter, and open its run.

    Raises ParameterError that names every parameter that is unknown or of the wrong type; SettingsError
    for a suite, model, arm or seed that there is not.
    """
    shell = get_ipython()
    known = set(parameters)
    if unknown := sorted(injected_names(shell.user_ns.get("In", []) if shell else []) - known):
        raise ParameterError(f"{stage} knows no parameter {', '.join(map(repr, unknown))}; it knows {', '.join(sorted(known))}")
    session = Session(stage, check(stage, parameters))
    print(", ".join(f"{name} {version}" for name, version in versions(("depthstress", *packages)).items()))
    run = session.run
    print(f"suite {run.suite.name} ({run.suite.title}), model {run.model.title}, arms {', '.join(run.arms)}, seeds {run.seeds}")
    print(f"everything goes to {run.shown(run.folder)}/")
    return session


def check(stage: str, parameters: dict[str, object]) -> Parameters:
    """The parameters as the right types. Raises ParameterError."""
    try:
        return Parameters.model_validate(parameters)
    except ValidationError as error:
        problems = [f"{e['loc'][0]} = {e['input']!r}: {e['msg']}" for e in error.errors()]
        raise ParameterError(f"{stage}: " + "; ".join(problems)) from None


def injected_names(cells: Iterable[str]) -> set[str]:
    """The names assigned in cells that papermill injected."""
    names: set[str] = set()
    for source in cells:
        if source.startswith(INJECTED):
            names |= assigned_names(source)
    return names - {"PAPERMILL_INPUT_PATH", "PAPERMILL_OUTPUT_PATH"}  # papermill's own, with --inject-paths


def assigned_names(source: str) -> set[str]:
    """The names that a cell of plain assignments sets."""
    assigned = (node.targets for node in ast.parse(source).body if isinstance(node, ast.Assign))
    return {target.id for targets in assigned for target in targets if isinstance(target, ast.Name)}


def parameter_defaults(notebook: str) -> dict[str, object]:
    """The names and plain literals of a notebook's parameters cell, from the notebook's JSON text."""
    for cell in json.loads(notebook)["cells"]:
        if cell["cell_type"] == "code" and "parameters" in cell["metadata"].get("tags", []):
            body = ast.parse("".join(cell["source"])).body
            return {node.targets[0].id: ast.literal_eval(node.value) for node in body if isinstance(node, ast.Assign)}
    return {}
