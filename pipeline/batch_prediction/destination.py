"""The directory that predictions appear in: whole, or not at all."""

from __future__ import annotations

import os
import shutil

from apache_beam.io.filesystems import FileSystems

from pipeline.batch_prediction import job
from pipeline.errors import UsageError

SUMMARY = "summary.json"

_OWN = tuple(f"{name}-" for name in (job.PREDICTIONS, job.REFUSED, job.TALLY))
_BEAMS = "beam-temp-"
_SHOWN = 3


class Destination:
    """A directory, local or remote.

    A local one is written as `DIRECTORY.incomplete` and renamed. A remote one, where a
    rename is a copy of every file, is written in place, and whole once it has its
    summary: that is written last.
    """

    def __init__(self, directory: str) -> None:
        """Keeps the path.

        Raises:
          UsageError: Something is there already.
        """
        self._is_local = "://" not in directory
        if self._is_local:
            directory = os.path.abspath(directory)
        self.directory = directory.rstrip("/")
        self.working = self.directory + (".incomplete" if self._is_local else "")
        self._refuse_existing()

    def begin(self) -> None:
        """Makes an empty place to write to; what a killed run left is deleted."""
        self.abandon()
        if self._is_local:
            os.makedirs(self.working)

    def abandon(self) -> None:
        """Deletes what was written."""
        if not self._is_local:
            own = [path for path in self._list_remote() if self._is_own(path)]
            FileSystems.delete(own)
        elif os.path.exists(self.working):
            shutil.rmtree(self.working)

    def finish(self) -> None:
        """Makes the directory appear."""
        if self._is_local:
            os.rename(self.working, self.directory)

    def _refuse_existing(self) -> None:
        if self._is_local:
            if not os.path.isdir(self.directory):
                found = [self.directory] if os.path.exists(self.directory) else []
            else:
                found = os.listdir(self.directory)
        else:
            # Shards without a summary are of a run that was killed.
            paths = self._list_remote()
            is_whole = FileSystems.join(self.directory, SUMMARY) in paths
            found = [p for p in paths if is_whole or not self._is_own(p)]
        if found:
            raise UsageError(
                f"--output {self.directory} is not new: it has "
                f"{', '.join(sorted(found)[:_SHOWN])}. Name a new directory, or a "
                ".tsv or .jsonl file"
            )

    def _is_own(self, path: str) -> bool:
        name = path.removeprefix(f"{self.directory}/")
        return name.startswith((*_OWN, _BEAMS)) or name == SUMMARY

    def _list_remote(self) -> list[str]:
        pattern = FileSystems.join(self.directory, "**")
        return [file.path for file in FileSystems.match([pattern])[0].metadata_list]
