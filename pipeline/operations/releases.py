"""The pushed versions of a model, and people's decisions about the served one.

A model server loads the highest number. So a rollback renames each newer version to a
directory that the server does not read, and it keeps its number. A copy of the earlier
version with a new number would leave the bad version loadable, double the size, and
give one model two numbers.

The journal has who rolled back or overrode, when and why. A decision is written before
the versions change, and again, as confirmed, after that. So no version changes without
a record, and the same command completes a decision whose process was killed in between.
"""

from __future__ import annotations

import contextlib
import dataclasses
import datetime
import getpass
import logging
import os
import re
import socket
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Literal

import pydantic

from contracts.errors import UsageError
from contracts.row_values import find_surrogate
from contracts.storage import files, json_lines
from contracts.verdicts import PUSHED_DESTINATION
from contracts.versions import served_versions
from contracts.versions.served_versions import WITHDRAWN
from pipeline.config.paths import OutputPaths
from pipeline.config.recipe import NAME_PATTERN
from pipeline.config.tfx_names import PUSHED_MODEL_TYPE
from pipeline.operations.record import RESTORE, damage_error
from pipeline.operations.runs import RunList
from report.run_metadata import creation_time, values

logger = logging.getLogger(__name__)
JOURNAL = "releases.jsonl"
_JOURNAL_ADVICE = f"{RESTORE}, or move it away"  # if it cannot be read

Action = Literal["rollback", "override"]
State = Literal["served", "earlier", "withdrawn", "incomplete"]


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
    add_release(directory, release.model_copy(update={"confirmed": False}))
    yield
    add_release(directory, release)


def read_journal(directory: Path) -> list[Release]:
    """Returns the releases of a served directory, the oldest first.

    The last ones may be unconfirmed. The next rollback replaces the intent of a
    rollback, and the next override of its run that of an override.

    Raises:
      UsageError: The journal cannot be read.
    """
    path = directory / JOURNAL
    try:
        records = list(json_lines.read(path, Release))
    except OSError as error:
        raise damage_error(path, error, _JOURNAL_ADVICE) from error
    releases: list[Release] = []
    for release in records:
        kind = release.action, release.run
        releases = [r for r in releases if r.confirmed or (r.action, r.run) != kind]
        releases.append(release)
    return releases


def add_release(directory: Path, release: Release) -> None:
    """Appends a release to the journal of a served directory.

    Raises:
      UsageError: The journal cannot be written.
    """
    path = directory / JOURNAL
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
    releases = read_journal(directory)
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


@dataclasses.dataclass(frozen=True)
class PushedVersion:
    """A pushed version.

    Attributes:
      version: Its number.
      directory: The SavedModel.
      state: `served` is the newest complete version, which a model server loads;
        `withdrawn` was rolled back; `incomplete` counts nowhere.
      size_bytes: Size of its files.
      pushed_at: When it was pushed; None if it is not in ML Metadata.
      run: Id of the run that trained it; None if unknown.
      tfx_run_id: TFX's id of that run. It is the only one if `tfx run` started the run.
      metric: The metric that decides.
      value: Its value on all rows of `evaluator.split`; None if unknown.
      release: The rollback that withdrew it, or the override that pushed it, which may
        be unconfirmed.
      problem: Why it is incomplete; empty if it is complete.
    """

    version: int
    directory: Path
    state: State
    size_bytes: int
    pushed_at: datetime.datetime | None = None
    run: str | None = None
    tfx_run_id: str | None = None
    metric: str = ""
    value: float | None = None
    release: Release | None = None
    problem: str = ""


def recipe_names(paths: OutputPaths) -> list[str]:
    """Returns the names of the recipes that pushed from an output directory.

    Raises:
      UsageError: They cannot be read.
    """
    try:
        if not paths.serving.is_dir():
            return []
        return sorted(
            path.name
            for path in paths.serving.iterdir()
            if re.fullmatch(NAME_PATTERN, path.name) and path.is_dir()
        )
    except OSError as error:
        raise _unreadable(paths.serving, error) from error


def list_pushed(
    paths: OutputPaths, *, requires_all: bool = False
) -> list[PushedVersion]:
    """Returns the pushed and the withdrawn versions, the newest first.

    A directory of versions that cannot be read is logged as a warning, and the rest is
    listed.

    Args:
      paths: The output directory, and the recipe.
      requires_all: Whether both directories must be readable.

    Raises:
      UsageError: A directory cannot be read, but is required.
    """
    pushes = _Pushes(paths)
    pushed = []
    state: State
    for directory, state in (
        (paths.pushed, "served"),
        (paths.pushed / served_versions.WITHDRAWN, "withdrawn"),
    ):
        try:
            names = served_versions.list_versions(str(directory))
        except OSError as error:
            if requires_all:
                raise _unreadable(directory, error) from error
            logger.warning("%s", _unreadable(directory, error).sentence())
            continue
        for name in names:
            path = directory / name
            try:
                problem = served_versions.find_problem(str(path))
            except files.FormatError as error:
                problem = str(error)
            if problem:
                pushed.append(pushes.describe(path, "incomplete", problem))
                continue
            pushed.append(pushes.describe(path, state))
            if state == "served":
                state = "earlier"
    return sorted(pushed, key=lambda version: version.version, reverse=True)


def _unreadable(directory: Path, error: OSError) -> UsageError:
    advice = "make it a directory that you may read"
    return damage_error(directory, error, advice, name="E-storage-failed")


def list_releases(directory: Path) -> list[Release]:
    """Returns `read_journal`; none, after a warning, if that cannot be read."""
    path = directory / JOURNAL
    try:
        releases = read_journal(directory)
        if path.is_dir():  # which `rollback` and `override` cannot write
            logger.warning("%s is a directory; %s", path, _JOURNAL_ADVICE)
        return releases
    except UsageError as error:
        logger.warning("%s", error)
        return []


class _Pushes:
    """Reads who pushed a version, from ML Metadata and the journal."""

    def __init__(self, paths: OutputPaths) -> None:
        self._releases = list_releases(paths.pushed)
        self._runs = RunList(paths)
        self._artifacts: dict[str, Any] = {}
        reader = self._runs.reader
        for artifact in reader.artifacts(PUSHED_MODEL_TYPE) if reader else ():
            destination = Path(values(artifact).get(PUSHED_DESTINATION, ""))
            if destination.parent.name == paths.name:
                self._artifacts[destination.name] = artifact

    def describe(self, path: Path, state: State, problem: str = "") -> PushedVersion:
        number = int(path.name)
        find_release = override_of
        if state == "withdrawn":
            find_release = withdrawal_of
        fields: dict[str, Any] = {}
        artifact, reader = self._artifacts.get(path.name), self._runs.reader
        if artifact is not None and reader is not None:
            tfx_run_id = reader.run_id_of(reader.producing_execution(artifact))
            fields |= {"tfx_run_id": tfx_run_id, "pushed_at": creation_time(artifact)}
            if run := self._runs.of_tfx_run(tfx_run_id):
                fields |= run.record.model_dump(include={"metric", "value"})
                fields["run"] = run.id
        return PushedVersion(
            version=number,
            directory=path,
            state=state,
            size_bytes=directory_size(path),
            release=find_release(self._releases, number),
            problem=problem,
            **fields,
        )


def directory_size(path: Path) -> int:
    """Returns the bytes of all files of a directory that can be read.

    Links are not followed.
    """
    size = 0
    for folder, _, names in os.walk(path):
        for name in names:
            with contextlib.suppress(OSError):  # no permission, or just deleted
                size += os.lstat(os.path.join(folder, name)).st_size
    return size


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
    check_reason(reason)
    kept, withdrawn = _version_paths(directory), _version_paths(directory / WITHDRAWN)
    complete = [int(name) for name in served_versions.list_complete(str(directory))]
    served = complete[0] if complete else None
    intent = find_intent(directory, "rollback")
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
        raise storage_failed(
            directory / WITHDRAWN, f"cannot be created: {error.strerror}"
        ) from error
    with recording(directory, release):
        for source, destination in moves.items():
            try:
                source.rename(destination)
                for parent in (destination.parent, source.parent):
                    files.sync(str(parent))
            except OSError as error:
                raise storage_failed(
                    source, f"cannot be moved to {destination}: {error.strerror}"
                ) from error
    return release


def _no_version(problem: str) -> UsageError:
    advice = "`versions` lists what can be served"
    return UsageError("version", problem, advice=advice, name="E-version-unknown")


def _version_paths(directory: Path) -> list[Path]:
    """Returns the directories that a model server takes for versions if complete."""
    names = served_versions.list_versions(str(directory))
    return [directory / name for name in names if served_versions.is_version(name)]
