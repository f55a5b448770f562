"""Makes an earlier version the served one.

A model server loads the highest number. So each newer version is renamed to a directory
that the server does not read, and keeps its number. A copy of the earlier version with
a new number would leave the bad version loadable, double the size, and give one model
two numbers.
"""

from __future__ import annotations

from pathlib import Path

from modules import served_versions
from modules.errors import UsageError
from modules.served_versions import WITHDRAWN
from pipeline.releases import journal
from pipeline.releases.journal import Release


def roll_back(directory: Path, version: int | None, reason: str) -> Release:
    """Serves an earlier version, or one that was rolled back before.

    Args:
      directory: Contains the versions.
      version: The version to serve; None for the one before the served one.
      reason: The reason to record.

    Returns:
      The record, with the versions that were withdrawn.

    Raises:
      UsageError: There is no such version, it is incomplete, or it is served already.
    """
    kept, withdrawn = _paths(directory), _paths(directory / WITHDRAWN)
    complete = [int(name) for name in served_versions.list_complete(str(directory))]
    if version is None:
        if len(complete) < 2:
            raise UsageError(
                f"{directory} has no earlier version to roll back to; see `versions`"
            )
        version = complete[1]
    if version in complete[:1]:
        raise UsageError(f"version {version} is served already")
    path = kept.get(version) or withdrawn.get(version)
    if path is None:
        raise UsageError(f"version {version} is not in {directory}; see `versions`")
    problem = served_versions.find_problem(str(path))
    if problem:
        raise UsageError(f"version {version} is incomplete: {problem}")
    if version not in kept:
        _move(path, directory)
    newer = sorted(number for number in kept if number > version)
    (directory / WITHDRAWN).mkdir(exist_ok=True)
    # The served version is moved last, so that a server never loads one in between.
    for number in newer:
        _move(kept[number], directory / WITHDRAWN)
    release = Release(
        action="rollback", version=version, reason=reason, withdrawn=newer
    )
    journal.add(directory, release)
    return release


def _paths(directory: Path) -> dict[int, Path]:
    names = served_versions.list_versions(str(directory))
    return {int(name): directory / name for name in names}


def _move(path: Path, directory: Path) -> None:
    try:
        path.rename(directory / path.name)
    except OSError as error:
        raise UsageError(
            f"{path} cannot be moved to {directory}: {error.strerror}"
        ) from error
