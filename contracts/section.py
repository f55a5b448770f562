"""The base class of all settings."""

from __future__ import annotations

from pydantic import BaseModel, ConfigDict


class Settings(BaseModel):
    """Refuses unknown keys and silent conversions such as "3" for 3."""

    model_config = ConfigDict(extra="forbid", frozen=True, strict=True)
