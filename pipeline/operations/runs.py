"""The runs of an output directory."""

from __future__ import annotations

import logging
import os
from collections.abc import Sequence
from pathlib import Path

from contracts.errors import UsageError
from contracts.storage import file_lock
from contracts.verdicts import PUSHED_DESTINATION
from contracts.versions import served_versions
from pipeline.config import tfx_names
from pipeline.config.paths import OutputPaths
from pipeline.operations.record import (
    RECORD_FILE,
    RESTORE,
    RunRecord,
    describe_damage,
    is_run_id,
    match_tfx_run,
    read_record,
)
from pipeline.operations.run import Run
from report.run_metadata import MetadataError, MetadataReader, values

LATEST = "latest"
_SHOWN_IDS = 3

logger = logging.getLogger(__name__)


class RunList(Sequence[Run]):
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
        self._runs: list[Run] = []
        following = None
        for name in sorted(filter(self._is_run, self._list_names()), reverse=True):
            record = read_record(paths.run(name))
            self._complete(record, following)
            following = record.id
            # A run pushes to the directory of its recipe.
            self._runs.append(Run(OutputPaths(paths.root, record.recipe), record))
        self._warn_of_unknown()

    def __len__(self) -> int:
        return len(self._runs)

    def __getitem__(self, index):  # type: ignore[no-untyped-def]
        """Returns one run, or those of a slice."""
        return self._runs[index]

    def find(self, text: str) -> Run:
        """Returns a run by its id, the start of its id, or `latest`.

        Raises:
          UsageError: No run or several runs match.
        """
        if not self:
            raise no_runs(self._paths)
        if text == LATEST:
            return self[0]
        matches = [run for run in self if run.id.startswith(text)]
        if len(matches) == 1:
            return matches[0]
        advice = "give more of the id"
        problem = f"is ambiguous: {', '.join(run.id for run in matches)}"
        if not matches:
            advice = "`runs` lists the ids"
            problem = f"is not the start of the id of a run in {self._paths.root}"
        raise UsageError(
            "run", f"{text} {problem}", advice=advice, name="E-run-unknown"
        )

    def of_tfx_run(self, tfx_run_id: str) -> Run | None:
        """Returns the run with this id of TFX; None if it has no record."""
        runs = (run for run in self if run.record.tfx_run_id == tfx_run_id)
        return next(runs, None)

    def of_version(self, version: Path) -> Run:
        """Returns the run that pushed a version, the first if several pushed it.

        Raises:
          UsageError: No run pushed it.
        """
        pushed = version
        if version.parent.name == served_versions.WITHDRAWN:
            # It was pushed to the parent of the directory of withdrawn versions.
            pushed = version.parents[1] / version.name
        reader = self.reader
        # The oldest artifact first: a later run may push the same model again.
        for artifact in reader.artifacts(tfx_names.PUSHED_MODEL_TYPE) if reader else ():
            destination = values(artifact).get(PUSHED_DESTINATION)
            if reader and destination and Path(destination).resolve() == pushed:
                execution = reader.producing_execution(artifact)
                run = self.of_tfx_run(reader.run_id_of(execution))
                if run is not None:
                    return run
        raise UsageError(
            str(version),
            "no run pushed it",
            advice="`versions` lists what was pushed",
            name="E-version-unknown",
        )

    def is_known(self, run: Run) -> bool:
        """Returns whether ML Metadata has the components of a run."""
        return run.record.tfx_run_id in self._tfx_runs

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
        ids = [r.id for r in self if r.record.tfx_run_id and not self.is_known(r)]
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


def find_run(paths: OutputPaths, name: str) -> Run:
    """Finds a run by an id or a directory.

    Args:
      paths: The output directory in which an id is looked up.
      name: An id as for `RunList.find`, the directory of a run's record, or the
        directory of a version that a run pushed.

    Raises:
      UsageError: There is no such run, or ML Metadata cannot be read.
    """
    directory = Path(name).resolve()
    is_version = served_versions.is_model(str(directory))
    is_record = os.path.lexists(directory / RECORD_FILE)
    if is_version or is_record:
        paths = _output_of(directory)
    runs = RunList(paths, requires_metadata=True)
    if is_version:
        return runs.of_version(directory)
    return runs.find(directory.name if is_record else name)


def _output_of(directory: Path) -> OutputPaths:
    for root in directory.parents:
        paths = OutputPaths(root, "")
        if paths.metadata.is_file():
            return paths
    raise UsageError(
        str(directory),
        f"no directory above it has {paths.metadata.name}",
        "a directory below an output directory of runs",
        name="E-run-unknown",
    )


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
