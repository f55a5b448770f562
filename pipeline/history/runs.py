"""The runs of an output directory."""

from __future__ import annotations

import contextlib
import datetime
import functools
from collections.abc import Sequence
from pathlib import Path

import yaml

from pipeline.config.errors import UsageError
from pipeline.config.paths import OutputPaths
from pipeline.history import run_record
from pipeline.history.metadata import MetadataReader
from pipeline.history.run_outputs import RunOutputs
from pipeline.history.run_record import RunRecord

LATEST = "latest"


class RunList(Sequence[RunRecord]):
    """The runs of an output directory, the newest first.

    A record without an end is of the run that holds the lock of the directory, or of
    one that was killed. The outcome of runs of earlier releases, which wrote no
    `run.json`, is read from ML Metadata.

    Args:
      paths: The output directory.
    """

    def __init__(self, paths: OutputPaths) -> None:
        self._paths = paths
        parent = paths.runs
        found = list(parent.iterdir()) if parent.is_dir() else []
        names = [path.name for path in found if _is_id(path.name) and path.is_dir()]
        self._ids = sorted(names, reverse=True)
        self._running = run_record.running_id(paths)
        self._records: list[RunRecord] = []
        self._records = [self._read(run_id) for run_id in self._ids]

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
                f"run {text}: {self._paths.root} has none whose id starts so; `runs` "
                "lists them"
            )
        ids = ", ".join(record.id for record in matches)
        raise UsageError(f"run {text} is ambiguous: {ids}; give more of the id")

    def of_tfx_run(self, tfx_run_id: str) -> RunRecord | None:
        """Returns the run by TFX's id; None if it has no record."""
        for record in self:
            if record.tfx_run_id == tfx_run_id:
                return record
        return None

    def outputs(self, run: RunRecord) -> RunOutputs:
        """Returns what the components of a run wrote, so far."""
        if self.reader is None or run.tfx_run_id is None:
            return RunOutputs()
        return RunOutputs(self.reader, run.tfx_run_id)

    @functools.cached_property
    def reader(self) -> MetadataReader | None:
        """ML Metadata; None before the first component of the first run."""
        if not self._paths.metadata.exists():
            return None
        return MetadataReader(self._paths.metadata)

    @functools.cached_property
    def _tfx_run_ids(self) -> list[str]:
        return self.reader.run_ids() if self.reader else []

    def _read(self, run_id: str) -> RunRecord:
        directory = self._paths.run(run_id)
        record = _read_record(directory)
        if record.state != "running":
            return record
        if record.tfx_run_id is None:
            index = self._ids.index(run_id)
            following = self._ids[index - 1] if index else None
            record.tfx_run_id = run_record.match_tfx_run(
                self._tfx_run_ids, run_id, following
            )
        if run_id != self._running:
            record.state = "interrupted"
            if not (directory / run_record.FILE).is_file():
                _read_outcome(record, self.outputs(record))
        return record


def _is_id(name: str) -> bool:
    with contextlib.suppress(ValueError):
        datetime.datetime.strptime(name, run_record.ID_FORMAT)
        return True
    return False


def _read_record(directory: Path) -> RunRecord:
    """Returns the record of a run; of a damaged one, what is wrong with it."""
    path = directory / run_record.FILE
    try:
        if not path.is_file():
            return _from_config(directory)
        record = RunRecord.model_validate_json(path.read_bytes())
    # Of other content, of a later release, or deleted meanwhile.
    except (OSError, ValueError, AttributeError, yaml.YAMLError) as error:
        reason = f"its record cannot be read: {type(error).__name__}"
        return RunRecord(id=directory.name, recipe="", state="failed", reason=reason)
    record.id = directory.name  # of a copy, which has the id of the original
    return record


def _from_config(directory: Path) -> RunRecord:
    """Returns the record of a run of an earlier release, without its outcome."""
    config = directory / "config.yaml"
    settings = yaml.safe_load(config.read_text("utf-8")) if config.is_file() else {}
    metric = settings.get("task", {}).get("metric") or ""
    return RunRecord(id=directory.name, recipe=settings.get("name", ""), metric=metric)


def _read_outcome(record: RunRecord, outputs: RunOutputs) -> None:
    """Sets the outcome of a run of an earlier release."""
    record.ended = outputs.ended
    failed = outputs.failed
    if failed is not None:
        record.state = "data refused" if failed == "DataGate" else "failed"
        record.reason = f"{failed} failed; run.log has the error"
    elif outputs.has_ended:
        record.finish(
            outputs.pushed, outputs.refusal, outputs.metric_value(record.metric)
        )
