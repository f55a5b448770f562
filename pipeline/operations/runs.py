"""The runs of an output directory."""

from __future__ import annotations

import contextlib
import dataclasses
import datetime
import functools
import logging
import os
from collections.abc import Iterator, Sequence
from pathlib import Path

import yaml

from contracts.commits import Commits
from contracts.errors import DataRefusedError, UsageError
from contracts.run_states import DATA_REFUSED
from contracts.storage import file_lock
from ingest.examples.data_card import CARD_FILE, DataCard
from pipeline.config.paths import OutputPaths
from pipeline.config.recipe import Config
from pipeline.operations.record import (
    RESTORE,
    SETTINGS_FILE,
    RunRecord,
    describe_damage,
    is_run_id,
    match_tfx_run,
    read_file,
    read_record,
)
from pipeline.operations.run_outputs import RunOutputs
from report.run_metadata import MetadataError, MetadataReader

LATEST = "latest"
_SHOWN_IDS = 3

logger = logging.getLogger(__name__)


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

    @property
    def data_card(self) -> DataCard | None:
        """Where its rows came from; None before they are read."""
        return read_file(str(self.directory / CARD_FILE), DataCard)

    @property
    def settings_problem(self) -> str:
        """Why its recipe cannot be read; empty if it can."""
        path = self.directory / SETTINGS_FILE
        try:
            yaml.safe_load(path.read_bytes())
        except (OSError, yaml.YAMLError) as error:
            return describe_damage(path, error)
        return ""

    @functools.cached_property
    def outputs(self) -> RunOutputs:
        """What its components wrote, so far.

        Raises:
          MetadataError: ML Metadata cannot be read.
        """
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


@contextlib.contextmanager
def recording(
    directory: Path, config: Config, metadata: Path, commits: Commits | None = None
) -> Iterator[RunRecord]:
    """Records the start and the end of a run, in a directory that must not exist.

    Yields:
      The record. Call its `finish` at the end of the run.
    """
    directory.mkdir(parents=True)
    record = RunRecord(
        id=directory.name,
        recipe=config.name,
        metric=config.task.metric,
        commits=commits,
    )
    record.write(directory)
    try:
        yield record
    except Exception as error:
        record.state = "failed"
        if isinstance(error, DataRefusedError):
            record.state = DATA_REFUSED
        record.reason = str(error) or type(error).__name__
        raise
    except BaseException:  # Ctrl-C, SIGTERM or SIGHUP
        record.state = "interrupted"
        raise
    finally:
        record.ended = datetime.datetime.now(datetime.timezone.utc)
        try:
            if metadata.exists():
                reader = MetadataReader.of_file(metadata)
                record.tfx_run_id = match_tfx_run(reader.run_times(), record.id)
                if record.state == "failed":  # perhaps after the push
                    record.pushed = RunOutputs(reader, record.tfx_run_id).pushed
        except MetadataError as error:  # the error of the run is raised, not this one
            logger.warning("%s", error)
        record.write(directory)


class RunList(Sequence[RunRecord]):
    """The runs of an output directory, the newest first.

    A record in the state `running` belongs to the run that holds the lock of the
    directory, or to a run that was killed, whose state is corrected. What cannot be
    read is logged as a warning, and the rest is listed.

    Args:
      paths: The output directory.
      requires_metadata: Whether ML Metadata must be readable.

    Attributes:
      reader: ML Metadata; None before the first component of the first run, or if it
        cannot be read.
      problems: The warnings, a line each.

    Raises:
      MetadataError: ML Metadata cannot be read, but is required.
    """

    def __init__(self, paths: OutputPaths, *, requires_metadata: bool = False) -> None:
        self._paths = paths
        self.problems: list[str] = []
        self.reader = self._open_metadata(requires_metadata)
        self._tfx_runs = self.reader.run_times() if self.reader else {}
        self._running = None
        try:
            self._running = running_id(paths)
        except OSError as error:
            advice = "delete it; until then no run is shown as running"
            self._warn(describe_damage(paths.lock, error, advice))
        directories = map(paths.run, filter(self._is_run, self._list_names()))
        self._records = sorted(
            map(read_record, directories), key=lambda run: run.id, reverse=True
        )
        following = None
        for record in self._records:
            self._complete(record, following)
            following = record.id
        self._warn_of_unknown()

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
            raise no_runs(self._paths)
        if text == LATEST:
            return self[0]
        matches = [record for record in self if record.id.startswith(text)]
        if len(matches) == 1:
            return matches[0]
        advice = "give more of the id"
        problem = f"is ambiguous: {', '.join(record.id for record in matches)}"
        if not matches:
            advice = "`runs` lists the ids"
            problem = f"is not the start of the id of a run in {self._paths.root}"
        raise UsageError(
            "run", f"{text} {problem}", advice=advice, name="E-run-unknown"
        )

    def of_tfx_run(self, tfx_run_id: str) -> RunRecord | None:
        """Returns the run with this id of TFX; None if it has no record."""
        return next((run for run in self if run.tfx_run_id == tfx_run_id), None)

    def is_known(self, record: RunRecord) -> bool:
        """Returns whether ML Metadata has the components of a run."""
        return record.tfx_run_id in self._tfx_runs

    def _warn(self, problem: str) -> None:
        self.problems.append(problem)
        logger.warning("%s", problem)

    def _open_metadata(self, is_required: bool) -> MetadataReader | None:
        if not self._paths.metadata.exists():
            return None
        try:
            return MetadataReader.of_file(self._paths.metadata)
        except MetadataError as error:
            if is_required:
                raise
            self._warn(str(error))
            return None

    def _list_names(self) -> list[str]:
        try:
            return os.listdir(self._paths.runs)
        except FileNotFoundError:
            return []
        except OSError as error:
            advice = "make it a directory that you may read"
            self._warn(describe_damage(self._paths.runs, error, advice))
            return []

    def _is_run(self, name: str) -> bool:
        try:
            return is_run_id(name) and bool(os.listdir(self._paths.run(name)))
        except (FileNotFoundError, NotADirectoryError):
            return False
        except OSError:  # `read_record` describes it
            return True

    def _warn_of_unknown(self) -> None:
        """Warns of runs with components that ML Metadata does not know."""
        database = self._paths.metadata
        if self.reader is None and database.exists():
            return
        ids = [r.id for r in self if r.tfx_run_id and not self.is_known(r)]
        if ids:
            shown = ", ".join(ids[:_SHOWN_IDS])
            if len(ids) > _SHOWN_IDS:
                shown += f" and {len(ids) - _SHOWN_IDS} more"
            what = "does not know" if database.exists() else "is missing; it had"
            runs = "run" if len(ids) == 1 else "runs"
            self._warn(
                f"{database} {what} the {runs} {shown}: the "
                f"components and the lineage are unknown; {RESTORE}"
            )

    def _complete(self, record: RunRecord, following: str | None) -> None:
        """Completes a record that is damaged or was not written at its run's end."""
        if record.damage:
            self._warn(record.damage)
        elif record.state != "running":
            return
        if record.tfx_run_id is None:
            record.tfx_run_id = match_tfx_run(self._tfx_runs, record.id, following)
        if record.state == "running" and record.id != self._running:
            record.state = "interrupted"


def no_runs(paths: OutputPaths) -> UsageError:
    """Returns the error of an output directory without a run."""
    return UsageError(
        "output",
        f"no runs in {paths.root}",
        advice="start one, or name another directory with `output=DIR`",
        name="E-run-unknown",
    )


def running_id(paths: OutputPaths) -> str | None:
    """Returns the id of the run that holds the lock of an output directory, or None.

    Raises:
      OSError: The lock cannot be read.
    """
    owner = file_lock.find_owner(paths.lock)
    return None if owner is None else Path(owner).name
