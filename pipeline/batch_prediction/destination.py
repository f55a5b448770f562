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
        self.working = f"{self.directory}.incomplete" if self._is_local else directory
        self._refuse_existing()

    def begin(self) -> None:
        """Makes an empty place to write to; what a killed run left is deleted."""
        self.abandon()
        if self._is_local:
            os.makedirs(self.working)

    def abandon(self) -> None:
        """Deletes what was written."""
        if self._is_local:
            shutil.rmtree(self.working, ignore_errors=True)
            return
        FileSystems.delete(self._list_remote())

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
            names = [os.path.basename(path) for path in self._list_remote()]
            found = [n for n in names if n == SUMMARY or not _is_own(n)]
        if found:
            raise UsageError(
                f"--output {self.directory} has {', '.join(sorted(found)[:3])} already; "
                "name a new directory, or a .tsv or .jsonl file"
            )

    def _list_remote(self) -> list[str]:
        pattern = FileSystems.join(self.directory, "**")
        return [file.path for file in FileSystems.match([pattern])[0].metadata_list]
