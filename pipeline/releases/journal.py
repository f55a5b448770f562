"""The journal of a served directory: who rolled back or overrode, when and why."""

from __future__ import annotations

import datetime
import getpass
import json
import os
import socket
from pathlib import Path
from typing import Literal

import pydantic

from modules import file_format

FILE = "releases.jsonl"


def _user() -> str:
    try:
        name = getpass.getuser()
    except (KeyError, OSError):  # a container's user may have no name
        name = f"uid {os.getuid()}"
    return f"{name}@{socket.gethostname()}"


class Release(pydantic.BaseModel):
    """A person's decision about the served version.

    Attributes:
      action: `rollback`, or `override` of a gate that refused the model.
      version: The version that is served after it.
      reason: The reason that the person gave.
      by: User and host.
      time: When the person decided.
      run: Id of the run that trained the model, for an override.
      withdrawn: The versions that a rollback withdrew.
    """

    action: Literal["rollback", "override"]
    version: int
    reason: str = ""
    by: str = pydantic.Field(default_factory=_user)
    time: datetime.datetime = pydantic.Field(
        default_factory=lambda: datetime.datetime.now().astimezone()
    )
    run: str | None = None
    withdrawn: list[int] = []


def read(directory: Path) -> list[Release]:
    """Returns the releases of a served directory, the oldest first."""
    path = directory / FILE
    if not path.is_file():
        return []
    lines = path.read_text(encoding="utf-8").splitlines()
    return [Release.model_validate(file_format.parse(line, path)) for line in lines]


def add(directory: Path, release: Release) -> None:
    """Appends a release to the journal of a served directory."""
    with open(directory / FILE, "a", encoding="utf-8") as file:
        content = file_format.with_format(release.model_dump(mode="json"))
        file.write(json.dumps(content) + "\n")


def override_of(directory: Path, version: int) -> Release | None:
    """Returns the override that pushed a version; None if the gate blessed it."""
    for release in read(directory):
        if release.action == "override" and release.version == version:
            return release
    return None


def withdrawal_of(directory: Path, version: int) -> Release | None:
    """Returns the last rollback that withdrew a version, or None."""
    for release in reversed(read(directory)):
        if version in release.withdrawn:
            return release
    return None
