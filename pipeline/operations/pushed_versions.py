"""Lists the pushed versions of a model, and which of them is served."""

from __future__ import annotations

import contextlib
import dataclasses
import datetime
import logging
import os
import re
from pathlib import Path
from typing import Any, Literal

from contracts.errors import UsageError
from contracts.storage import file_format
from contracts.verdicts import PUSHED_DESTINATION
from contracts.versions import served_versions
from pipeline.config.paths import OutputPaths
from pipeline.config.recipe import NAME_PATTERN
from pipeline.config.tfx_names import PUSHED_MODEL_TYPE
from pipeline.operations import damage, journal
from pipeline.operations.journal import Release
from pipeline.operations.runs import RunList
from report.run_metadata import creation_time, values

logger = logging.getLogger(__name__)

State = Literal["served", "earlier", "withdrawn", "incomplete"]


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
            except file_format.FormatError as error:
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
    return damage.to_error(directory, error, advice, name="E-storage-failed")


def list_releases(directory: Path) -> list[Release]:
    """Returns `journal.read`; none, after a warning, if that cannot be read."""
    path = directory / journal.FILE
    try:
        releases = journal.read(directory)
        if path.is_dir():  # which `rollback` and `override` cannot write
            logger.warning("%s is a directory; %s", path, journal.ADVICE)
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
        find_release = journal.override_of
        if state == "withdrawn":
            find_release = journal.withdrawal_of
        fields: dict[str, Any] = {}
        artifact, reader = self._artifacts.get(path.name), self._runs.reader
        if artifact is not None and reader is not None:
            tfx_run_id = reader.run_id_of(reader.producing_execution(artifact))
            fields |= {"tfx_run_id": tfx_run_id, "pushed_at": creation_time(artifact)}
            if run := self._runs.of_tfx_run(tfx_run_id):
                fields |= {"run": run.id, "metric": run.metric, "value": run.value}
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
