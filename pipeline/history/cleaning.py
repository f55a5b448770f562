"""Finds and deletes what no kept run, served version or resumable training needs."""

from __future__ import annotations

import dataclasses
import datetime
import functools
import json
import math
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from ml_metadata.proto import metadata_store_pb2 as mlmd

from modules import environment, file_lock, fingerprint, run_metadata
from modules.run_metadata import MetadataReader, values
from pipeline.config import tfx_names
from pipeline.config.errors import UsageError
from pipeline.config.paths import OutputPaths
from pipeline.history.pushed_versions import directory_size, list_pushed, recipe_names
from pipeline.history.run_record import RunRecord
from pipeline.history.runs import RunList

_MILLISECONDS = 1000


@dataclasses.dataclass(frozen=True)
class Obsolete:
    """A directory that can go.

    Attributes:
      kind: `artifact`, `examples`, `encoder`, `schema`, `training` or `run record`.
      path: The directory.
      why: Why nothing needs it.
      size_bytes: What it frees.
      artifact: Of an artifact, its id in ML Metadata.
    """

    kind: str
    path: Path
    why: str
    size_bytes: int
    artifact: int | None = None


def plan(paths: OutputPaths, keep: int) -> list[Obsolete]:
    """Returns the directories that can go.

    Kept are the newest runs, the run whose model is served, and all that they read or
    wrote; unfinished trainings that the installed code would resume; pushed versions
    and those withdrawn, with the records of their runs; and all that no run is known
    of. So a cached component of a kept run finds its outputs.

    Args:
      paths: The output directory.
      keep: How many of the newest runs to keep, of those that ran a component.

    Raises:
      UsageError: ML Metadata describes another directory, such as the original of a
        copy.
    """
    runs = RunList(paths)
    # A run that ended before its first component, for example for a setting, made
    # nothing that could be kept.
    counted = [run for run in runs if run.tfx_run_id is not None]
    if len(counted) <= keep or runs.reader is None:
        return []
    _check_location(paths, runs.reader)
    planner = _Planner(paths, runs, runs.reader, counted[keep - 1])
    return [
        *planner.artifacts(),
        *planner.inputs(),
        *planner.trainings(),
        *planner.records(),
    ]


def delete(paths: OutputPaths, obsolete: list[Obsolete]) -> None:
    """Deletes what `plan` returned. Hold the lock of the output directory.

    ML Metadata gets to know first, so that TFX's cache offers no deleted artifact.
    """
    ids = [entry.artifact for entry in obsolete if entry.artifact is not None]
    if ids:
        store = run_metadata.connect(paths.metadata, is_writable=True)
        artifacts = store.get_artifacts_by_id(ids)
        for artifact in artifacts:
            artifact.state = mlmd.Artifact.DELETED
        store.put_artifacts(artifacts)
    for entry in obsolete:
        shutil.rmtree(entry.path)


def _check_location(paths: OutputPaths, reader: MetadataReader) -> None:
    for artifact in reader.artifacts(tfx_names.MODEL_TYPE):
        if not Path(artifact.uri).is_relative_to(paths.artifacts):
            raise UsageError(
                f"{paths.metadata} lists {artifact.uri}, which is not below "
                f"{paths.artifacts}: it was copied or moved. Clean the original"
            )


class _Planner:
    """Decides what is kept; see `plan`."""

    def __init__(
        self,
        paths: OutputPaths,
        runs: RunList,
        reader: MetadataReader,
        oldest_run: RunRecord,
    ) -> None:
        self._paths = paths
        self._runs = runs
        self._reader = reader
        # Runs by `tfx run` have no record: they are as old as TFX's id says.
        oldest = oldest_run.started.replace(tzinfo=None)
        kept = {run_id for run_id in reader.run_ids() if _is_since(run_id, oldest)}
        pushed = [
            version
            for name in recipe_names(paths.root)
            for version in list_pushed(OutputPaths(paths.root, name))
        ]
        self._kept_records = {run.id for run in runs if run.id >= oldest_run.id}
        self._kept_records |= {version.run for version in pushed if version.run}
        kept |= {
            version.tfx_run_id
            for version in pushed
            if version.state == "served" and version.tfx_run_id
        }
        self._executions = [
            execution
            for run_id in reader.run_ids()
            if run_id in kept
            for _, execution in reader.executions(run_id)
        ]
        self._kept_artifacts = reader.used_by(self._executions)

    def artifacts(self) -> Iterator[Obsolete]:
        """Yields artifacts that no kept run read or wrote."""
        for artifact in self._reader.artifacts():
            path = Path(artifact.uri)
            if path.is_file():  # the page of a report, with its numbers beside it
                path = path.parent
            if (
                artifact.id not in self._kept_artifacts
                and path.is_relative_to(self._paths.artifacts)
                and path.is_dir()
            ):
                why = "of runs that are not kept"
                yield _obsolete("artifact", path, why, artifact.id)

    def inputs(self) -> Iterator[Obsolete]:
        """Yields prepared examples, encoders and schemas that no kept run names."""
        texts = [
            str(value)
            for execution in self._executions
            for value in values(execution).values()
        ]
        for kind, parent in (
            ("examples", self._paths.examples("any").parent),
            ("encoder", self._paths.encoder("any").parent),
            ("schema", self._paths.schema("any").parents[1]),
        ):
            for path in _directories(parent):
                if not any(str(path) in text for text in texts):
                    yield _obsolete(kind, path, "no kept run reads it")

    def trainings(self) -> Iterator[Obsolete]:
        """Yields trainings whose checkpoints and weights nothing will read again."""
        kept = {execution.id for execution in self._executions}
        kept |= self._producers_of_kept_models()
        for path in _directories(self._paths.training):
            trainer = self._find_trainer(path)
            if trainer is None or trainer.id in kept:
                continue
            if trainer.last_known_state == mlmd.Execution.COMPLETE:
                yield _obsolete("training", path, "finished, of a run that is not kept")
            elif self._is_of_other_code(trainer):
                why = "unfinished, and the code or a library has changed since"
                yield _obsolete("training", path, why)

    def records(self) -> Iterator[Obsolete]:
        """Yields records of runs that are not kept; see `plan`."""
        for run in self._runs:
            if run.id not in self._kept_records:
                path = self._paths.run(run.id)
                yield _obsolete("run record", path, "older than the runs that are kept")

    def _producers_of_kept_models(self) -> set[int]:
        return {
            self._reader.producing_execution(artifact).id
            for artifact in self._reader.artifacts(tfx_names.MODEL_TYPE)
            if artifact.id in self._kept_artifacts
        }

    def _find_trainer(self, directory: Path) -> Any:
        """Returns the execution of the Trainer that used a directory last, if any."""
        lock = (
            directory / file_lock.DIRECTORY_LOCK
        )  # written whenever a training starts there
        if not lock.is_file():
            return None
        used = int(lock.stat().st_mtime * _MILLISECONDS)  # as ML Metadata counts
        started = [
            execution
            for execution in self._trainers
            if execution.create_time_since_epoch <= used
        ]
        if not started or used > _end(started[-1]):
            return None
        return started[-1]

    @functools.cached_property
    def _trainers(self) -> list[Any]:
        return [
            execution
            for run_id in self._reader.run_ids()
            for component, execution in self._reader.executions(run_id)
            if component.name == tfx_names.TRAINER and not component.is_cached
        ]

    def _is_of_other_code(self, trainer: Any) -> bool:
        config = json.loads(values(trainer)["custom_config"])
        code, libraries = self._installed
        trained = config.get("code_fingerprint"), config.get("libraries")
        return trained != (code, libraries)

    @functools.cached_property
    def _installed(self) -> tuple[str, dict[str, str]]:
        environment.set_up(quiet=True)  # of_code imports what it reads
        code = fingerprint.of_code(tfx_names.RUN_FN)
        return code, fingerprint.library_versions(fingerprint.TRAINER_LIBRARIES)


def _end(execution: Any) -> float:
    """Returns when an execution ended, in ms; infinity if it was killed."""
    if execution.last_known_state == mlmd.Execution.RUNNING:
        return math.inf
    return execution.last_update_time_since_epoch


def _is_since(run_id: str, oldest: datetime.datetime) -> bool:
    try:
        return datetime.datetime.fromisoformat(run_id) >= oldest
    except ValueError:  # another program's id
        return True


def _directories(parent: Path) -> list[Path]:
    if not parent.is_dir():
        return []
    return sorted(path for path in parent.iterdir() if path.is_dir())


def _obsolete(kind: str, path: Path, why: str, artifact: int | None = None) -> Obsolete:
    return Obsolete(kind, path, why, directory_size(path), artifact)
