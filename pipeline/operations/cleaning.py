"""Deletes what no kept run, served version or resumable training needs.

Artifacts whose files have changed are dropped, too. TFX takes an output from its cache
if the output's directory exists, whatever is in it. So the files are recorded after a
run, and compared before the next one. An artifact that has changed is marked as deleted
in ML Metadata; then TFX runs its component again.
"""

from __future__ import annotations

import contextlib
import dataclasses
import functools
import json
import logging
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

from ml_metadata.proto import metadata_store_pb2 as mlmd

from contracts import fingerprint, written_files
from contracts.errors import UsageError
from contracts.storage import file_lock, files
from modules import environment
from pipeline.config import tfx_names
from pipeline.config.paths import OutputPaths
from pipeline.operations.record import describe_damage
from pipeline.operations.releases import (
    directory_size,
    list_pushed,
    recipe_names,
)
from pipeline.operations.run import Run
from pipeline.operations.runs import RunList
from report import run_metadata
from report.run_metadata import MetadataError, MetadataReader, values

logger = logging.getLogger(__name__)


@contextlib.contextmanager
def checking_artifacts(paths: OutputPaths) -> Iterator[None]:
    """Checks the artifacts of earlier runs, and records those of a run in the context.

    The artifacts of a run that is killed are recorded after the next run. The caller
    holds the lock of the output directory.
    """
    known, changed = set(), []
    for artifact, directory in _cached_artifacts(paths):
        known.add(artifact)
        if changes := written_files.find_changes(directory, record_of_files(directory)):
            changed.append(artifact)
            logger.warning(
                "%s is not used from the cache: %d of its files are missing or have "
                "changed, so %s runs again where a run needs it",
                directory,
                len(changes),
                directory.relative_to(paths.artifacts).parts[0],
            )
    run_metadata.mark_as_deleted(paths.metadata, changed)
    _skip_directories(paths)
    try:
        yield
    except BaseException:
        try:
            _record_files(paths, known)
        except Exception as error:  # noqa: BLE001 (the error of the run is raised)
            logger.warning("the files of artifacts are not recorded: %s", error)
        raise
    _record_files(paths, known)


def _skip_directories(paths: OutputPaths) -> None:
    """Has the run write to new directories.

    TFX names them after the ids of executions. A database that was restored from a
    backup would give the ids of later executions again, whose files are still there.
    """
    if run_metadata.has_content(paths.metadata):
        names = [path.name for path in paths.artifacts.glob("*/*/*")]
        last = max((int(name) for name in names if name.isdecimal()), default=0)
        run_metadata.skip_executions(paths.metadata, last)


def _record_files(paths: OutputPaths, known: set[int]) -> None:
    for artifact, directory in _cached_artifacts(paths):
        # In a new database the ids and directories begin anew.
        if artifact not in known or not record_of_files(directory).is_file():
            written_files.record(directory, record_of_files(directory))


def record_of_files(directory: Path) -> Path:
    """Returns the record of an artifact's files, next to the artifact's directory."""
    # Not in it: TFX reads the only file of some artifacts (`get_only_uri_in_dir`).
    return directory.with_name(f".{directory.name}{written_files.RECORD}")


def artifact_directory(artifact: Any) -> Path:
    """Returns the directory of an artifact, which may be the page of a report in it."""
    path = Path(artifact.uri)
    return path.parent if path.is_file() else path


def _cached_artifacts(paths: OutputPaths) -> Iterator[tuple[int, Path]]:
    """Yields the artifacts that TFX's cache may return: id and directory."""
    if not run_metadata.has_content(paths.metadata):
        return
    for artifact in MetadataReader.of_file(paths.metadata).artifacts():
        directory = artifact_directory(artifact)
        if (
            artifact.state == mlmd.Artifact.LIVE
            and directory.is_relative_to(paths.artifacts)
            and directory.is_dir()  # else TFX runs the component again, too
        ):
            yield artifact.id, directory


@dataclasses.dataclass(frozen=True)
class Obsolete:
    """A directory that nothing needs.

    Attributes:
      kind: `artifact`, `examples`, `encoder`, `schema`, `training` or `run record`.
      path: The directory.
      why: Why nothing needs it.
      size_bytes: Size of its files.
      artifact: Id in ML Metadata, if it is an artifact.
    """

    kind: str
    path: Path
    why: str
    size_bytes: int
    artifact: int | None = None


def plan(paths: OutputPaths, keep: int) -> list[Obsolete]:
    """Returns the directories that nothing needs.

    It keeps the newest runs, the run whose model is served, and all that they read or
    wrote, so that a cached component of a kept run finds its outputs. It also keeps
    unfinished trainings that the installed code would resume, pushed and withdrawn
    versions with the records of their runs, the runs of damaged versions, the runs
    whose record is damaged, and what no known run wrote or read.

    Of a run that ML Metadata does not know, it keeps the record and what the run wrote.
    What the run read from the cache is kept if a run that is kept uses it, too. A file
    that cannot be read is logged as a warning.

    Args:
      paths: The output directory.
      keep: How many of the newest runs to keep. Runs that ended before their first
        component do not count.

    Raises:
      UsageError: ML Metadata or a directory cannot be read, or ML Metadata describes
        another directory, such as the original of a copy.
    """
    try:
        return _plan(paths, keep)
    except OSError as error:
        raise UsageError(
            error.filename,
            f"cannot be read: {error.strerror}",
            advice="make it readable",
            name="E-storage-failed",
        ) from error


def _plan(paths: OutputPaths, keep: int) -> list[Obsolete]:
    runs = RunList(paths, requires_metadata=True)
    # A run that ended before its first component, for example because of a setting,
    # wrote nothing to keep. What a damaged run wrote is kept in any case.
    counted = [run for run in runs if runs.is_known(run) and not run.record.damage]
    if len(counted) <= keep or runs.reader is None:
        return []
    refuse_copy(paths, runs.reader)
    planner = _Planner(paths, runs, runs.reader, counted[:keep])
    return [
        *planner.artifacts(),
        *planner.check_results(),
        *planner.inputs(),
        *planner.trainings(),
        *planner.records(),
    ]


def refuse_copy(paths: OutputPaths, reader: MetadataReader) -> None:
    """Refuses an output directory that was copied or moved.

    Raises:
      UsageError: ML Metadata lists models of another directory.
    """
    for artifact in reader.artifacts(tfx_names.MODEL_TYPE):
        if not Path(artifact.uri).is_relative_to(paths.artifacts):
            raise UsageError(
                str(paths.metadata),
                f"it lists {artifact.uri}, which is not below {paths.artifacts}: the "
                "output was copied or moved",
                advice="clean the original",
                name="E-output-copied",
            )


def delete(
    paths: OutputPaths, obsolete: list[Obsolete], command: str = "clean"
) -> None:
    """Deletes what `plan` returned. The caller holds the lock of the output directory.

    Artifacts are marked as deleted in ML Metadata first, so that TFX's cache does not
    return a deleted artifact.

    Args:
      paths: The output directory.
      obsolete: The directories.
      command: The command that deletes the others if it runs again.

    Raises:
      UsageError: A directory cannot be deleted; the others are.
    """
    ids = [entry.artifact for entry in obsolete if entry.artifact is not None]
    run_metadata.mark_as_deleted(paths.metadata, ids)
    problems = []
    for entry in obsolete:
        try:
            files.delete_directory(str(entry.path))  # of a link, the link
            if entry.artifact is not None:
                record_of_files(entry.path).unlink(missing_ok=True)
        except OSError as error:
            problems.append(error)
    if problems:
        raise UsageError(
            problems[0].filename,
            f"cannot be deleted: {problems[0].strerror}",
            advice=f"correct the cause and run `{command}` again",
            name="E-storage-failed",
        ) from problems[0]


class _Planner:
    """Decides what is kept; see `plan`."""

    def __init__(
        self,
        paths: OutputPaths,
        runs: RunList,
        reader: MetadataReader,
        kept_runs: list[Run],
    ) -> None:
        self._paths = paths
        self._runs = runs
        self._reader = reader
        # Runs that `tfx run` started have no record; they are kept like the others.
        run_ids = reader.run_ids()
        oldest = min(run_ids.index(str(run.record.tfx_run_id)) for run in kept_runs)
        kept = set(run_ids[oldest:])
        pushed = [
            version
            for name in recipe_names(paths)
            for version in list_pushed(OutputPaths(paths.root, name), requires_all=True)
        ]
        self._kept_records = {run.id for run in runs if run.id >= kept_runs[-1].id}
        self._kept_records |= {version.run for version in pushed if version.run}
        kept |= {
            version.tfx_run_id
            for version in pushed
            if version.state in ("served", "incomplete") and version.tfx_run_id
        }
        damaged = [run.record for run in runs if run.record.damage]
        kept |= {record.tfx_run_id for record in damaged if record.tfx_run_id}
        self._obsolete = [
            execution
            for run_id in run_ids
            if run_id not in kept
            for _, execution in reader.executions(run_id)
        ]
        obsolete = {execution.id for execution in self._obsolete}
        # With those of no known run.
        self._kept = [e for e in reader.all_executions() if e.id not in obsolete]
        self._kept_artifacts = reader.used_by(self._kept)

    def artifacts(self) -> Iterator[Obsolete]:
        """Yields artifacts that no kept run read or wrote."""
        for artifact in self._reader.artifacts():
            path = artifact_directory(artifact)
            if (
                artifact.id not in self._kept_artifacts
                and path.is_relative_to(self._paths.artifacts)
                and path.is_dir()
            ):
                why = "of runs that are not kept"
                yield _obsolete("artifact", path, why, artifact.id)

    def check_results(self) -> Iterator[Obsolete]:
        """Yields the results of checks, which a changed check is run without."""
        path = self._paths.artifacts / tfx_names.CHECK_RESULTS
        if path.is_dir():
            yield _obsolete("results of checks", path, "a run computes them again")

    def inputs(self) -> Iterator[Obsolete]:
        """Yields prepared examples, encoders and schemas of runs that are not kept.

        What no run has read is kept: a run that is not known may have written it.
        """
        kept, obsolete = _texts(self._kept), _texts(self._obsolete)
        for kind, parent in (
            ("examples", self._paths.examples("any").parent),
            ("encoder", self._paths.encoder("any").parent),
            ("schema", self._paths.schema("any").parents[1]),
            ("labelled rows", self._paths.labelled_rows("any").parent),
        ):
            for path in _directories(parent):
                if str(path) in obsolete and str(path) not in kept:
                    yield _obsolete(kind, path, "no kept run reads it")

    def trainings(self) -> Iterator[Obsolete]:
        """Yields trainings whose checkpoints and weights nothing will read again."""
        kept = {execution.id for execution in self._kept}
        # A cached Trainer of a kept run reuses the model of an earlier execution.
        kept |= {
            self._reader.producing_execution(artifact).id
            for artifact in self._reader.artifacts(tfx_names.MODEL_TYPE)
            if artifact.id in self._kept_artifacts
        }
        for path in _directories(self._paths.training):
            try:
                why = self._why_obsolete(path, kept)
            except OSError as error:
                damage = describe_damage(path, error, "the training is kept")
                logger.warning("%s", damage)
            except MetadataError as error:
                logger.warning("%s: %s; the training is kept", path, error.sentence())
            else:
                if why:
                    yield _obsolete("training", path, why)

    def _why_obsolete(self, training: Path, kept: set[int]) -> str:
        trainer = self._find_trainer(training)
        if trainer is None or trainer.id in kept:
            return ""
        if trainer.last_known_state == mlmd.Execution.COMPLETE:
            return "finished, of a run that is not kept"
        config = json.loads(values(trainer)["custom_config"])
        trained = config.get("code_fingerprint"), config.get("libraries")
        if trained != self._installed:
            return "unfinished, and the code or a library has changed since"
        return ""

    def records(self) -> Iterator[Obsolete]:
        """Yields records of runs that are not kept; see `plan`."""
        for run in self._runs:
            is_lost = run.record.tfx_run_id and not self._runs.is_known(run)
            is_unclear = run.record.damage or is_lost
            if run.id not in self._kept_records and not is_unclear:
                why = "older than the runs that are kept"
                yield _obsolete("run record", run.directory, why)

    def _find_trainer(self, directory: Path) -> Any:
        """Returns the execution of the Trainer that used a directory last, if any."""
        # Written whenever a training starts in the directory.
        lock = directory / file_lock.DIRECTORY_LOCK
        if not lock.is_file():
            return None
        used = int(lock.stat().st_mtime * 1000)  # ML Metadata counts milliseconds
        started = [
            execution
            for execution in self._trainers
            if execution.create_time_since_epoch <= used
        ]
        if not started:
            return None
        trainer = started[-1]
        # A Trainer that was killed is still RUNNING, and has no end.
        has_ended = trainer.last_known_state != mlmd.Execution.RUNNING
        if has_ended and used > trainer.last_update_time_since_epoch:
            return None
        return trainer

    @functools.cached_property
    def _trainers(self) -> list[Any]:
        return [
            execution
            for execution in self._reader.all_executions()
            if (component := self._reader.describe(execution)).name
            in (tfx_names.TRAINER, tfx_names.TUNER)
            and not component.is_cached
        ]

    @functools.cached_property
    def _installed(self) -> tuple[str, dict[str, str]]:
        """The fingerprint of the training code, and the versions of its libraries."""
        environment.set_up(quiet=True)  # of_code imports what it reads
        code = fingerprint.of_code(tfx_names.RUN_FN)
        return code, fingerprint.library_versions(fingerprint.TRAINER_LIBRARIES)


def _texts(executions: Iterable[Any]) -> str:
    """Returns the properties of executions, one a line."""
    return "\n".join(str(v) for e in executions for v in values(e).values())


def _directories(parent: Path) -> list[Path]:
    if not parent.is_dir():
        return []
    return sorted(path for path in parent.iterdir() if path.is_dir())


def _obsolete(kind: str, path: Path, why: str, artifact: int | None = None) -> Obsolete:
    return Obsolete(kind, path, why, directory_size(path), artifact)
