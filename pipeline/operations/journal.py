"""The journal of a served directory: who rolled back or overrode, when and why.

A decision is written before the versions change, and again, as confirmed, after that.
So no version changes without a record, and the same command completes a decision whose
process was killed in between.
"""

from __future__ import annotations

import contextlib
import datetime
import getpass
import os
import socket
from collections.abc import Iterator
from pathlib import Path
from typing import Literal

import pydantic

from contracts.errors import UsageError
from contracts.storage import json_lines
from modules.data.row_values import find_surrogate
from pipeline.operations import damage

FILE = "releases.jsonl"
ADVICE = f"{damage.ADVICE}, or move it away"  # if it cannot be read

Action = Literal["rollback", "override"]


def _user() -> str:
    try:
        name = getpass.getuser()
    except (KeyError, OSError):  # a container's user may have no name
        name = f"uid {os.getuid()}"
    return f"{name}@{socket.gethostname()}"


def check_reason(reason: str) -> None:
    """Refuses a reason that no file or terminal can show.

    Raises:
      UsageError: It has a lone surrogate.
    """
    if problem := find_surrogate(reason):
        raise UsageError("reason", problem, name="E-text-refused")


class Release(pydantic.BaseModel):
    """A person's decision about the served version.

    Attributes:
      action: `rollback`, or `override` of a gate that refused the model.
      version: The version that is served after it.
      reason: The reason that the person gave.
      by: User and host.
      time: When the person decided, in UTC.
      run: Id of the run that trained the model, for an override.
      withdrawn: The versions that a rollback withdrew.
      previous: The version that was served before a rollback; None if none was.
      confirmed: Whether the versions changed; False for an intent.
    """

    action: Action
    version: int
    reason: str = ""
    by: str = pydantic.Field(default_factory=_user)
    time: datetime.datetime = pydantic.Field(
        default_factory=lambda: datetime.datetime.now(datetime.timezone.utc)
    )
    run: str | None = None
    withdrawn: list[int] = []
    previous: int | None = None
    confirmed: bool = True

    def can_complete(self, served: int | None) -> bool:
        """Returns whether a rollback that was killed can still be completed.

        Args:
          served: The version that is served now. After another push, the rollback would
            withdraw the pushed version, too.
        """
        return served in (self.version, self.previous)


@contextlib.contextmanager
def recording(directory: Path, release: Release) -> Iterator[None]:
    """Writes a release as an intent, and confirms it if the context raises no error.

    Raises:
      UsageError: The journal cannot be written.
    """
    add(directory, release.model_copy(update={"confirmed": False}))
    yield
    add(directory, release)


def read(directory: Path) -> list[Release]:
    """Returns the releases of a served directory, the oldest first.

    The last ones may be unconfirmed. The next rollback replaces the intent of a
    rollback, and the next override of its run that of an override.

    Raises:
      UsageError: The journal cannot be read.
    """
    path = directory / FILE
    try:
        records = list(json_lines.read(path, Release))
    except OSError as error:
        raise damage.to_error(path, error, ADVICE) from error
    releases: list[Release] = []
    for release in records:
        kind = release.action, release.run
        releases = [r for r in releases if r.confirmed or (r.action, r.run) != kind]
        releases.append(release)
    return releases


def add(directory: Path, release: Release) -> None:
    """Appends a release to the journal of a served directory.

    Raises:
      UsageError: The journal cannot be written.
    """
    path = directory / FILE
    try:
        json_lines.append(path, release)
    except OSError as error:
        raise storage_failed(path, f"cannot be written: {error.strerror}") from error


def storage_failed(path: Path, problem: str) -> UsageError:
    """Returns the error of a decision that the file system interrupted."""
    advice = "correct the cause and run the command again"
    return UsageError(str(path), problem, advice=advice, name="E-storage-failed")


def find_intent(
    directory: Path, action: Action, run: str | None = None
) -> Release | None:
    """Returns the unconfirmed rollback, or override of a run, or None."""
    intent = action, run, False
    releases = read(directory)
    return next((r for r in releases if (r.action, r.run, r.confirmed) == intent), None)


def override_of(releases: list[Release], version: int) -> Release | None:
    """Returns the override that pushed a version; None if the gate blessed it."""
    pushed = "override", version
    return next((r for r in releases if (r.action, r.version) == pushed), None)


def withdrawal_of(releases: list[Release], version: int) -> Release | None:
    """Returns the last rollback that withdrew a version, or None.

    It is unconfirmed if it was killed before its end.
    """
    return next((r for r in reversed(releases) if version in r.withdrawn), None)
