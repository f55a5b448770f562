"""The runs of an output directory."""

from __future__ import annotations

import dataclasses
import datetime
import functools
from collections.abc import Sequence
from pathlib import Path

from modules import file_lock
from modules.errors import UsageError
from modules.run_metadata import MetadataReader
from pipeline.config.paths import OutputPaths
from pipeline.runs import run_record
from pipeline.runs.run_outputs import RunOutputs
from pipeline.runs.run_record import RunRecord

LATEST = "latest"


@dataclasses.dataclass(frozen=True)
class Run:
    """A run: its record, the files of the record, and what its components wrote.

    Attributes:
      paths: Its output directory.
      record: Its record.
    """

    paths: OutputPaths
    record: RunRecord

    @property
    def directory(self) -> Path:
        """The directory of its record."""
        return self.paths.run(self.record.id)

    @functools.cached_property
    def outputs(self) -> RunOutputs:
        """What its components wrote, so far."""
        if not self.paths.metadata.exists():
            return RunOutputs()
        reader = MetadataReader.of_file(self.paths.metadata)
        outputs = RunOutputs(reader, self.record.tfx_run_id)
        # ML Metadata lists a component as running if its process was killed.
        if self.record.state != "running":
            outputs.components = [
                dataclasses.replace(component, state="interrupted")
                if component.state == "running"
                else component
                for component in outputs.components
            ]
        return outputs


class RunList(Sequence[RunRecord]):
    """The runs of an output directory, the newest first.

    A record in the state `running` belongs to the run that holds the lock of the
    directory, or to a run that was killed, whose state is corrected.

    Args:
      paths: The output directory.
    """

    def __init__(self, paths: OutputPaths) -> None:
        self._paths = paths
        parent = paths.runs
        directories = [
            path
            for path in (parent.iterdir() if parent.is_dir() else ())
            if run_record.is_id(path.name) and (path / run_record.FILE).is_file()
        ]
        self._running = running_id(paths)
        records = map(run_record.read, directories)
        self._records = sorted(records, key=lambda run: run.order, reverse=True)
        following = None
        for record in self._records:
            if record.state == "running":
                self._correct(record, following)
            following = record.id

    def __len__(self) -> int:
        return len(self._records)

    def __getitem__(self, index):  # type: ignore[no-untyped-def]
        """Returns one run, or those of a slice."""
        return self._records[index]

    def find(self, text: str) -> RunRecord:
        """Returns a run by its id, the start of its id, or `latest`.

        Raises:
          UsageError: No run or several runs match.
        """
        if not self:
            raise UsageError(f"there are no runs in {self._paths.root}")
        if text == LATEST:
            return self[0]
        matches = [record for record in self if record.id.startswith(text)]
        if len(matches) == 1:
            return matches[0]
        if not matches:
            raise UsageError(
                f"run {text}: no run in {self._paths.root} has an id that starts with "
                "this; `runs` lists the ids"
            )
        ids = ", ".join(record.id for record in matches)
        raise UsageError(f"run {text} is ambiguous: {ids}; give more of the id")

    def of_tfx_run(self, tfx_run_id: str) -> RunRecord | None:
        """Returns the run with this id of TFX; None if it has no record."""
        for record in self:
            if record.tfx_run_id == tfx_run_id:
                return record
        return None

    @functools.cached_property
    def reader(self) -> MetadataReader | None:
        """ML Metadata; None before the first component of the first run."""
        if not self._paths.metadata.exists():
            return None
        return MetadataReader.of_file(self._paths.metadata)

    @functools.cached_property
    def _tfx_runs(self) -> dict[str, datetime.datetime]:
        return self.reader.run_times() if self.reader else {}

    def _correct(self, record: RunRecord, following: str | None) -> None:
        """Completes a record that was not written at the end of its run."""
        if record.tfx_run_id is None:
            record.tfx_run_id = run_record.match_tfx_run(
                self._tfx_runs, record.id, following
            )
        if record.id != self._running:
            record.state = "interrupted"


def running_id(paths: OutputPaths) -> str | None:
    """Returns the id of the run that holds the lock of an output directory, or None."""
    owner = file_lock.find_owner(paths.lock)
    return None if owner is None else Path(owner).name
