"""The files of artifacts, which TFX's cache does not look at.

TFX takes an output from its cache if the output's directory exists, whatever is in it.
So the names and sizes of the files are recorded after a run, and compared before the
next one. An artifact that has changed is marked as deleted in ML Metadata; then TFX
runs its component again.
"""

from __future__ import annotations

import contextlib
import logging
from collections.abc import Iterable, Iterator
from pathlib import Path

from ml_metadata.proto import metadata_store_pb2 as mlmd

from modules import files, run_metadata
from modules.run_metadata import MetadataReader
from pipeline.config.paths import OutputPaths

_ARTIFACTS = "artifacts"
_Sizes = dict[str, int]  # by the file's name, relative to the artifact's directory

logger = logging.getLogger(__name__)


@contextlib.contextmanager
def checked(paths: OutputPaths) -> Iterator[None]:
    """Checks the artifacts of earlier runs, and records those of a run in the context.

    The artifacts of a run that is killed are recorded after the next run.

    Args:
      paths: The output directory. The caller holds its lock.
    """
    _mark_changed(paths)
    try:
        yield
    finally:
        record(paths)


def record(paths: OutputPaths, rewritten: Iterable[mlmd.Artifact] = ()) -> None:
    """Records the files of new artifacts, and forgets those of deleted artifacts.

    Args:
      paths: The output directory.
      rewritten: Artifacts whose files were replaced on purpose.
    """
    if not paths.metadata.exists():
        return
    before = _read(paths)
    for artifact in rewritten:
        before.pop(_key(artifact), None)
    after = {
        _key(artifact): before.get(_key(artifact), _sizes(artifact))
        for artifact in _artifacts(paths)
    }
    files.write_record(str(paths.artifact_files), {_ARTIFACTS: after})


def _mark_changed(paths: OutputPaths) -> None:
    recorded = _read(paths)
    if not recorded or not paths.metadata.exists():
        return
    changed = []
    for artifact in _artifacts(paths):
        expected, actual = recorded.get(_key(artifact)), _sizes(artifact)
        if expected is None or actual == expected:
            continue
        changed.append(artifact.id)
        names = expected.keys() | actual.keys()
        count = sum(expected.get(name) != actual.get(name) for name in names)
        component = Path(artifact.uri).relative_to(paths.artifacts).parts[0]
        logger.warning(
            "%s is not used from the cache: %d of its files are missing or have "
            "changed, so %s runs again where a run needs it",
            artifact.uri,
            count,
            component,
        )
    run_metadata.mark_as_deleted(paths.metadata, changed)


def _artifacts(paths: OutputPaths) -> list[mlmd.Artifact]:
    """Returns the artifacts that TFX's cache may return."""
    return [
        artifact
        for artifact in MetadataReader.of_file(paths.metadata).artifacts()
        if artifact.state == mlmd.Artifact.LIVE
        and Path(artifact.uri).is_relative_to(paths.artifacts)
    ]


def _read(paths: OutputPaths) -> dict[str, _Sizes]:
    recorded = files.read_record(str(paths.artifact_files))
    return recorded[_ARTIFACTS] if recorded else {}


def _key(artifact: mlmd.Artifact) -> str:
    # In a new database the ids and directories begin anew.
    return f"{artifact.id} of {artifact.create_time_since_epoch}"


def _sizes(artifact: mlmd.Artifact) -> _Sizes:
    directory = Path(artifact.uri)
    if directory.is_file():  # the page of a report, which has more files next to it
        directory = directory.parent
    return {
        path.relative_to(directory).as_posix(): path.stat().st_size
        for path in directory.rglob("*")
        if path.is_file() and not path.name.startswith(".")
    }
