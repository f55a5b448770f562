"""Makes an earlier version the served one.

A model server loads the highest number. So each newer version is renamed to a directory
that the server does not read, and keeps its number. A copy of the earlier version with
a new number would leave the bad version loadable, double the size, and give one model
two numbers.
"""

from __future__ import annotations

from pathlib import Path

from contracts.errors import UsageError
from contracts.storage import files
from contracts.versions import served_versions
from contracts.versions.served_versions import WITHDRAWN
from pipeline.operations import journal
from pipeline.operations.journal import Release


def roll_back(directory: Path, version: int | None, reason: str) -> Release:
    """Serves an earlier version, or one that was rolled back before.

    It completes a rollback that was killed or failed: to the same version, or to any
    version if none is given.

    Args:
      directory: Contains the versions.
      version: The version to serve; None for the one before the served one.
      reason: The reason to record. A completed rollback keeps its own.

    Returns:
      The record, with the versions that were withdrawn.

    Raises:
      UsageError: There is no such version, it is incomplete, or it is served already;
        or a version cannot be moved, or the rollback cannot be recorded.
    """
    journal.check_reason(reason)
    kept, withdrawn = _paths(directory), _paths(directory / WITHDRAWN)
    complete = [int(name) for name in served_versions.list_complete(str(directory))]
    served = complete[0] if complete else None
    intent = journal.find_intent(directory, "rollback")
    is_current = intent is not None and intent.can_complete(served)
    if version is None and intent is not None and is_current:
        version = intent.version
    if version is None:
        if len(complete) < 2:
            raise _no_version(f"no earlier one in {directory}")
        version = complete[1]
    if version == served and intent is None:
        raise _no_version(f"{version} is served already")
    # A stub of a version may be next to the version itself, or among the withdrawn.
    problems = {
        path: served_versions.find_problem(str(path))
        for path in (*kept, *withdrawn)
        if int(path.name) == version
    }
    if not problems:
        raise _no_version(f"{version} is not in {directory}")
    path = next((path for path in problems if not problems[path]), None)
    if path is None:
        (problem, *_) = problems.values()
        raise UsageError(
            "version",
            f"{version} is incomplete: {problem}",
            advice="choose a complete one of `versions`",
            name="E-model-damaged",
        )
    # The served version is moved last, so that a server never loads one in between.
    newer = [path for path in reversed(kept) if int(path.name) > version]
    moves = {path: directory / WITHDRAWN / path.name for path in newer}
    if path in withdrawn:
        moves = {path: directory / path.name, **moves}
    for source, destination in moves.items():
        if destination.exists():
            raise UsageError(
                str(source),
                f"cannot be moved: {destination} exists",
                advice="delete one of them",
                name="E-destination-exists",
            )
    release = Release(
        action="rollback",
        version=version,
        reason=reason,
        previous=None if served == version else served,
    )
    numbers = {int(path.name) for path in newer}
    if intent is not None:
        if is_current and intent.version == version:
            release = intent.model_copy(update={"confirmed": True})
        moved = {int(path.name) for path in withdrawn} - {version}
        numbers |= moved.intersection(intent.withdrawn)  # they stay withdrawn
    release.withdrawn = sorted(numbers)
    try:
        (directory / WITHDRAWN).mkdir(exist_ok=True)
    except OSError as error:
        raise journal.storage_failed(
            directory / WITHDRAWN, f"cannot be created: {error.strerror}"
        ) from error
    with journal.recording(directory, release):
        for source, destination in moves.items():
            try:
                source.rename(destination)
                for parent in (destination.parent, source.parent):
                    files.sync(str(parent))
            except OSError as error:
                raise journal.storage_failed(
                    source, f"cannot be moved to {destination}: {error.strerror}"
                ) from error
    return release


def _no_version(problem: str) -> UsageError:
    advice = "`versions` lists what can be served"
    return UsageError("version", problem, advice=advice, name="E-version-unknown")


def _paths(directory: Path) -> list[Path]:
    """Returns the directories that a model server takes for versions if complete."""
    names = served_versions.list_versions(str(directory))
    return [directory / name for name in names if served_versions.is_version(name)]
