"""Writes the directory of predictions, which appears complete or not at all."""

from __future__ import annotations

import logging
import os
import re
import uuid
from collections.abc import Collection
from pathlib import Path

from apache_beam.io.filesystems import FileSystems

from contracts.errors import UsageError
from contracts.storage import files, uris
from contracts.storage.file_lock import Heartbeat
from ingest.working_directory import WorkingDirectory

SUMMARY = "summary.json"

_LOGGER = logging.getLogger(__name__)

_INCOMPLETE = "incomplete"
_BEAT_SECONDS = 30.0
_STALE_SECONDS = 300.0
_SUFFIX = re.compile("-[0-9a-f]{12}")


class LocalDestination:
    """A directory on a local file system.

    A directory that does not exist is written as `DIRECTORY.incomplete` and renamed. An
    existing one may be a mount point, and its parent read-only: it is written in
    `DIRECTORY/.incomplete`, and the files are moved at the end.

    Attributes:
      directory: The directory, with symbolic links resolved.
      working: The directory to write files to.
      suffix: Comes before the shard number in the names of the files.

    Raises:
      UsageError: The directory has files.
    """

    suffix = ""

    def __init__(self, directory: str) -> None:
        self.directory = os.path.realpath(directory)
        self.working = f"{self.directory}.{_INCOMPLETE}"
        if os.path.isdir(self.directory):
            self.working = os.path.join(self.directory, f".{_INCOMPLETE}")
        self._working = WorkingDirectory(Path(self.working))
        self._refuse_existing()

    def begin(self) -> None:
        """Creates an empty directory to write to.

        Raises:
          UsageError: Another process writes to it, or has written it since.
        """
        self._working.open()
        try:
            self._refuse_existing()
            # A prediction may have been killed before the directory was created.
            sibling = WorkingDirectory(Path(f"{self.directory}.{_INCOMPLETE}"))
            if sibling.path != self._working.path and sibling.path.exists():
                sibling.open()
                sibling.delete()
        except BaseException:
            self.abandon()
            raise

    def abandon(self) -> None:
        """Deletes what was written."""
        self._working.delete()

    def finish(self, summary: bytes) -> None:
        """Moves the files to the directory, the summary last.

        Raises:
          UsageError: The directory cannot be written; the files are kept.
        """
        try:
            Path(self.working, SUMMARY).write_bytes(summary)
            self._working.publish(Path(self.directory), last=SUMMARY)
        except OSError as error:
            raise UsageError(
                "destination",
                f"all rows are predicted, but {self.directory} cannot be written "
                f"({error})",
                advice=f"move the files from {self.working}: the next prediction "
                "deletes them",
                name="E-storage-failed",
            ) from error

    def _refuse_existing(self) -> None:
        names = [self.directory] if os.path.exists(self.directory) else []
        if os.path.isdir(self.directory):
            names = os.listdir(self.directory)
        _refuse(self.directory, [n for n in names if n != f".{_INCOMPLETE}"])


class RemoteDestination:
    """A directory of a bucket, where a rename is a copy of every file.

    Files are written in place. The summary is the last file: with it, the directory is
    complete. All files of a prediction have its ID in their names. A running prediction
    rewrites a marker, `incomplete-ID`. If a marker is old, its prediction was killed,
    and the next prediction deletes the files with its ID.

    Attributes:
      directory: The directory.
      working: The directory to write files to.
      suffix: Comes before the shard number in the names of the files.

    Raises:
      UsageError: The directory has files.
    """

    def __init__(self, directory: str) -> None:
        self.directory = self.working = directory.rstrip("/")
        self.suffix = f"-{uuid.uuid4().hex[:12]}"
        self._prefix = FileSystems.join(self.directory, _INCOMPLETE)
        self._marker = self._prefix + self.suffix
        self._heartbeat = Heartbeat(
            self._rewrite_marker, seconds=_BEAT_SECONDS, path=self._marker
        )
        self._find_suffixes(self._list())

    def begin(self) -> None:
        """Writes the marker, and deletes the files of killed predictions.

        If two predictions begin at the same time, each sees the other's marker.

        Raises:
          UsageError: Another prediction writes to the directory, or has written it.
        """
        try:
            self._write_marker()
            for suffix in self._find_killed():
                self._delete(suffix)
        except BaseException:
            self._delete(self.suffix)
            raise
        self._heartbeat.start()

    def abandon(self) -> None:
        """Deletes what was written."""
        self._heartbeat.stop()
        self._delete(self.suffix)

    def finish(self, summary: bytes) -> None:
        """Writes the summary and deletes the marker.

        Raises:
          UsageError: Another prediction deleted the marker, which was too old. Or the
            directory cannot be written; the files are kept.
        """
        self._heartbeat.stop()
        try:
            has_marker = FileSystems.exists(self._marker)
            if has_marker:
                self._write_summary(summary)
                FileSystems.delete([self._marker])
        except Exception as error:
            raise UsageError(
                "destination",
                f"all rows are predicted, but {self.directory} cannot be written "
                f"({error}); its files with {self.suffix} in their names are complete, "
                f"but {SUMMARY} may be missing",
                advice=f"to keep them, delete the marker {self._marker}: otherwise the "
                f"next prediction deletes them once the marker is {_STALE_SECONDS:g} s "
                "old",
                name="E-storage-failed",
            ) from error
        if not has_marker:
            self.abandon()
            raise UsageError(
                "destination",
                f"{self.directory} was taken over by another prediction, because this "
                f"one did not write its marker for {_STALE_SECONDS:g} s",
                advice="name a new directory",
                name="E-output-in-use",
            )

    def _find_killed(self) -> list[str]:
        """Returns the suffixes of killed predictions.

        Raises:
          UsageError: There are other files, or files of a running prediction.
        """
        times = self._list()
        suffixes = self._find_suffixes(times)
        suffixes.remove(self.suffix)
        for marker in (self._prefix + suffix for suffix in suffixes):
            # Times of the server's clock. Some file systems report 0 instead.
            age = times[self._marker] - times[marker]
            if age < _STALE_SECONDS or not times[marker]:
                raise UsageError(
                    "destination",
                    f"{self.directory} is in use by another prediction: its marker "
                    f"{marker} is {age:.0f} s old",
                    advice="name a new directory; if that prediction was killed, "
                    "delete its files, or try again when the marker is "
                    f"{_STALE_SECONDS:g} s old",
                    name="E-output-in-use",
                )
        return suffixes

    def _find_suffixes(self, paths: Collection[str]) -> list[str]:
        """Returns the suffixes of predictions with a marker; refuses other files."""
        ends = [path.removeprefix(self._prefix) for path in paths]
        suffixes = list(filter(_SUFFIX.fullmatch, ends))
        others = [path for path in paths if not any(s in path for s in suffixes)]
        _refuse(self.directory, others)
        return suffixes

    def _write_marker(self) -> None:
        _write(self._marker, b"A prediction writes to this directory.\n")

    def _write_summary(self, summary: bytes) -> None:
        path = FileSystems.join(self.directory, SUMMARY)
        try:
            _write(path, summary)
        except Exception:
            _LOGGER.warning("%s was not written; retrying once", path, exc_info=True)
            _write(path, summary)

    def _rewrite_marker(self) -> None:
        if FileSystems.exists(self._marker):  # else another prediction deleted it
            self._write_marker()

    def _delete(self, suffix: str) -> None:
        FileSystems.delete([path for path in self._list() if suffix in path])

    def _list(self) -> dict[str, float]:
        """Returns the modification times of all files of the directory by path."""
        pattern = FileSystems.join(self.directory, "**")
        files = FileSystems.match([pattern])[0].metadata_list
        return {file.path: file.last_updated_in_seconds for file in files}


Destination = LocalDestination | RemoteDestination


def create(directory: str) -> Destination:
    """Returns the destination of a local or remote directory.

    Raises:
      UsageError: The directory has files, or Beam reads its path as a pattern.
    """
    is_local = uris.is_local(directory)
    uris.refuse_pattern(
        "destination", os.path.realpath(directory) if is_local else directory
    )
    files.check_remote(directory)
    return (LocalDestination if is_local else RemoteDestination)(directory)


def _write(path: str, content: bytes) -> None:
    with FileSystems.create(path) as file:
        file.write(content)


def _refuse(directory: str, names: list[str]) -> None:
    if names:
        raise UsageError(
            "destination",
            f"{directory} has {', '.join(sorted(names)[:3])}",
            "a new directory, or a .tsv or .jsonl file",
            name="E-destination-exists",
        )
