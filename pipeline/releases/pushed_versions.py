"""Lists the pushed versions of a model, and which of them is served."""

from __future__ import annotations

import dataclasses
import datetime
import re
from pathlib import Path
from typing import Any, Literal

from modules import served_versions
from modules.run_metadata import MetadataReader, creation_time, values
from modules.verdicts import PUSHED_DESTINATION
from pipeline.config.paths import OutputPaths
from pipeline.config.recipe import NAME_PATTERN
from pipeline.config.tfx_names import PUSHED_MODEL_TYPE
from pipeline.releases import journal
from pipeline.releases.journal import Release
from pipeline.runs.runs import RunList

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


def recipe_names(root: Path) -> list[str]:
    """Returns the names of the recipes that pushed from an output directory."""
    parent = OutputPaths(root, "any").pushed.parent
    if not parent.is_dir():
        return []
    return sorted(
        path.name
        for path in parent.iterdir()
        if re.fullmatch(NAME_PATTERN, path.name) and path.is_dir()
    )


def list_pushed(paths: OutputPaths) -> list[PushedVersion]:
    """Returns the pushed and the withdrawn versions, the newest first."""
    states: dict[Path, State] = {}
    state: State
    for directory, state in (
        (paths.pushed, "served"),
        (paths.pushed / served_versions.WITHDRAWN, "withdrawn"),
    ):
        for name in served_versions.list_versions(str(directory)):
            if served_versions.find_problem(str(directory / name)):
                states[directory / name] = "incomplete"
            else:
                states[directory / name] = state
                if state == "served":
                    state = "earlier"
    pushes = _Pushes(paths)
    pushed = [pushes.describe(path, state) for path, state in states.items()]
    return sorted(pushed, key=lambda version: version.version, reverse=True)


class _Pushes:
    """Reads who pushed a version, from ML Metadata and the journal."""

    def __init__(self, paths: OutputPaths) -> None:
        self._directory = paths.pushed
        self._runs = RunList(paths)
        self._artifacts: dict[str, Any] = {}
        if paths.metadata.exists():
            self._reader = MetadataReader.of_file(paths.metadata)
            for artifact in self._reader.artifacts(PUSHED_MODEL_TYPE):
                destination = Path(values(artifact).get(PUSHED_DESTINATION, ""))
                if destination.parent.name == paths.name:
                    self._artifacts[destination.name] = artifact

    def describe(self, path: Path, state: State) -> PushedVersion:
        number = int(path.name)
        release = journal.override_of(self._directory, number)
        if state == "withdrawn":
            release = journal.withdrawal_of(self._directory, number)
        described = PushedVersion(
            number, path, state, directory_size(path), release=release
        )
        artifact = self._artifacts.get(path.name)
        if artifact is None:
            return described
        execution = self._reader.producing_execution(artifact)
        tfx_run_id = self._reader.run_id_of(execution)
        run = self._runs.of_tfx_run(tfx_run_id)
        described = dataclasses.replace(
            described,
            tfx_run_id=tfx_run_id,
            pushed_at=creation_time(artifact),
        )
        if run is None:
            return described
        return dataclasses.replace(
            described, run=run.id, metric=run.metric, value=run.value
        )


def directory_size(path: Path) -> int:
    """Returns the bytes of all files of a directory; links are not followed."""
    files = (file for file in path.rglob("*") if not file.is_dir())
    return sum(file.lstat().st_size for file in files)
