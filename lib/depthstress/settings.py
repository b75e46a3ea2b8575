"""What all settings have in common: strict, named, and an error that says where."""

from __future__ import annotations

from typing import Annotated

from pydantic import BaseModel, ConfigDict, Field

NAME = r"^[a-z][a-z0-9_.-]*$"
Name = Annotated[str, Field(pattern=NAME)]


class SettingsError(ValueError):
    """A setting that is wrong; the message names the file, the field and what would be right."""


class Settings(BaseModel):
    """A part of a YAML file: no field that is not known, no value of another type, no change afterwards."""

    model_config = ConfigDict(extra="forbid", frozen=True, strict=True)
