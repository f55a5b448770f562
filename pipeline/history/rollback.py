"""Makes an earlier version the served one.

A model server loads the highest number, so the newer versions move out of its sight,
in one rename each, and keep their numbers. To push a copy of the earlier version would
leave the bad one loadable, take its size again, and give one model two numbers.
"""

from __future__ import annotations

from pathlib import Path

from pipeline.config.errors import UsageError
from pipeline.history import releases
from pipeline.history.pushed_versions import (
    WITHDRAWN,
    complete_versions,
    is_complete,
    served_version,
)
from pipeline.history.releases import Release
from serving import discovery


def roll_back(directory: Path, version: int | None, reason: str) -> Release:
    """Serves an earlier version, or one that was rolled back before.

    Args:
      directory: Contains the versions.
      version: The version to serve; None for the one before the served one.
      reason: Is recorded.

    Returns:
      The record, with the versions that were withdrawn.

    Raises:
      UsageError: There is no such version, it is incomplete, or it is served already.
    """
    version = _choose(directory) if version is None else version
    withdrawn = directory / WITHDRAWN / str(version)
    if withdrawn.is_dir():
        _check_complete(withdrawn)
        _move(withdrawn, directory / str(version))
    else:
        _check(directory, version)
    newer = sorted(n for n in discovery.list_versions(directory) if n > version)
    (directory / WITHDRAWN).mkdir(exist_ok=True)
    # The served one last: until then it stays the highest, then `version` is.
    for number in newer:
        _move(directory / str(number), directory / WITHDRAWN / str(number))
    release = Release(
        action="rollback", version=version, reason=reason, withdrawn=newer
    )
    releases.add(directory, release)
    return release


def _choose(directory: Path) -> int:
    complete = complete_versions(directory)
    if len(complete) < 2:
        raise UsageError(
            f"{directory} has no earlier version to roll back to; see `versions`"
        )
    return complete[1]


def _check(directory: Path, version: int) -> None:
    path = directory / str(version)
    if not path.is_dir():
        raise UsageError(f"version {version} is not in {directory}; see `versions`")
    _check_complete(path)
    if version == served_version(directory):
        raise UsageError(f"version {version} is served already")


def _check_complete(path: Path) -> None:
    if not is_complete(path):
        problem = discovery.find_problem(path) or "it is not a SavedModel"
        raise UsageError(f"version {path.name} is incomplete: {problem}")


def _move(source: Path, destination: Path) -> None:
    try:
        source.rename(destination)
    except OSError as error:
        raise UsageError(
            f"{source} cannot be moved to {destination}: {error.strerror}"
        ) from error
