"""The files of artifacts, which TFX's cache does not look at.

TFX takes an output from its cache if the output's directory exists, whatever is in it.
So the files are recorded after a run, and compared before the next one. An artifact
that has changed is marked as deleted in ML Metadata; then TFX runs its component again.
"""

from __future__ import annotations

import contextlib
import logging
from collections.abc import Iterator
from pathlib import Path

from ml_metadata.proto import metadata_store_pb2 as mlmd

from contracts import written_files
from pipeline.config.paths import OutputPaths
from report import run_metadata
from report.run_metadata import MetadataReader

logger = logging.getLogger(__name__)


@contextlib.contextmanager
def checked(paths: OutputPaths) -> Iterator[None]:
    """Checks the artifacts of earlier runs, and records those of a run in the context.

    The artifacts of a run that is killed are recorded after the next run. The caller
    holds the lock of the output directory.
    """
    known, changed = set(), []
    for artifact, directory in _cached(paths):
        known.add(artifact)
        if changes := written_files.find_changes(directory, record_of(directory)):
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
            _record(paths, known)
        except Exception as error:  # noqa: BLE001 (the error of the run is raised)
            logger.warning("the files of artifacts are not recorded: %s", error)
        raise
    _record(paths, known)


def _skip_directories(paths: OutputPaths) -> None:
    """Has the run write to new directories.

    TFX names them after the ids of executions. A database that was restored from a
    backup would give the ids of later executions again, whose files are still there.
    """
    if run_metadata.has_content(paths.metadata):
        names = [path.name for path in paths.artifacts.glob("*/*/*")]
        last = max((int(name) for name in names if name.isdecimal()), default=0)
        run_metadata.skip_executions(paths.metadata, last)


def _record(paths: OutputPaths, known: set[int]) -> None:
    for artifact, directory in _cached(paths):
        # In a new database the ids and directories begin anew.
        if artifact not in known or not record_of(directory).is_file():
            written_files.record(directory, record_of(directory))


def record_of(directory: Path) -> Path:
    """Returns the record of an artifact's files, next to the artifact's directory."""
    # Not in it: TFX reads the only file of some artifacts (`get_only_uri_in_dir`).
    return directory.with_name(f".{directory.name}{written_files.RECORD}")


def _cached(paths: OutputPaths) -> Iterator[tuple[int, Path]]:
    """Yields the artifacts that TFX's cache may return: id and directory."""
    if not run_metadata.has_content(paths.metadata):
        return
    for artifact in MetadataReader.of_file(paths.metadata).artifacts():
        directory = Path(artifact.uri)
        if directory.is_file():  # the page of a report, which has more files next to it
            directory = directory.parent
        if (
            artifact.state == mlmd.Artifact.LIVE
            and directory.is_relative_to(paths.artifacts)
            and directory.is_dir()  # else TFX runs the component again, too
        ):
            yield artifact.id, directory
