"""The record of a run: `run.json`, written when the run starts and when it ends."""

from __future__ import annotations

import contextlib
import datetime
import fcntl
from collections.abc import Iterator
from pathlib import Path
from typing import Literal

import pydantic

from pipeline.config.errors import DataRefusedError
from pipeline.config.paths import OutputPaths
from pipeline.config.recipe import Config

FILE = "run.json"
ID_FORMAT = "%Y%m%d-%H%M%S-%f"

State = Literal["running", "pushed", "refused", "data refused", "failed", "interrupted"]


class RunRecord(pydantic.BaseModel):
    """What a run was and how it ended.

    Attributes:
      id: The name of its directory below `runs/`: when it started, in local time.
      recipe: The recipe's name.
      state: `running`, also if the process was killed; see `runs.RunList`.
      ended: When it ended.
      metric: The metric that decides, by the recipe's task.
      value: Its value on all rows of `evaluator.split`; None if it was not evaluated.
      pushed: Directory of the version that was pushed; of a refused run, by an
        override.
      reason: Why nothing was pushed.
      tfx_run_id: TFX's id of the run in ML Metadata; None before the first component.
    """

    id: str
    recipe: str
    state: State = "running"
    ended: pydantic.AwareDatetime | None = None
    metric: str = ""
    value: float | None = None
    pushed: str | None = None
    reason: str = ""
    tfx_run_id: str | None = None

    @property
    def started(self) -> datetime.datetime:
        """When it started."""
        return datetime.datetime.strptime(self.id, ID_FORMAT).astimezone()

    @property
    def seconds(self) -> float | None:
        """Duration up to now or to its end; None if a killed run's end is unknown."""
        if self.ended is None and self.state != "running":
            return None
        return ((self.ended or _now()) - self.started).total_seconds()

    def finish(self, pushed: str | None, reason: str, value: float | None) -> None:
        """Sets the outcome of a run whose components have all ended."""
        self.state = "refused" if pushed is None else "pushed"
        self.pushed, self.reason, self.value = pushed, reason, value

    def write(self, directory: Path) -> None:
        """Writes the record, replacing the one of the start."""
        path = directory / FILE
        incomplete = path.with_suffix(".incomplete")
        incomplete.write_text(self.model_dump_json(indent=1) + "\n", encoding="utf-8")
        incomplete.replace(path)


@contextlib.contextmanager
def recording(directory: Path, config: Config, metadata: Path) -> Iterator[RunRecord]:
    """Records a run: that it started, and how it ended.

    Args:
      directory: The directory of the record, which does not exist.
      config: The settings.
      metadata: The database of ML Metadata.

    Yields:
      The record. Call its `finish` at the end of the run.
    """
    directory.mkdir(parents=True)
    record = RunRecord(id=directory.name, recipe=config.name, metric=config.task.metric)
    record.write(directory)
    try:
        yield record
    except Exception as error:
        record.state = "failed"
        if isinstance(error, DataRefusedError):
            record.state = "data refused"
        record.reason = str(error) or type(error).__name__
        raise
    except BaseException:  # Ctrl-C
        record.state = "interrupted"
        raise
    finally:
        record.ended = _now()
        _read_metadata(record, metadata)
        record.write(directory)


def running_id(paths: OutputPaths) -> str | None:
    """Returns the id of the run that is going on; None if there is none.

    Args:
      paths: The output directory.
    """
    with contextlib.suppress(FileNotFoundError), open(paths.lock) as file:
        try:
            fcntl.flock(file, fcntl.LOCK_SH | fcntl.LOCK_NB)
        except BlockingIOError:
            return Path(file.read().strip()).name
    return None


def match_tfx_run(
    run_ids: list[str], record: str, next_record: str | None = None
) -> str | None:
    """Returns TFX's id of a run, which is the time when its first component started.

    Runs of an output directory exclude each other, so at most one TFX run starts
    between two records.

    Args:
      run_ids: TFX's ids of all runs.
      record: The id of the run's record.
      next_record: The id of the next record; None if there is none.
    """
    first = datetime.datetime.strptime(record, ID_FORMAT)
    last = datetime.datetime.max
    if next_record is not None:
        last = datetime.datetime.strptime(next_record, ID_FORMAT)
    for run_id in reversed(run_ids):
        with contextlib.suppress(ValueError):  # another program's id
            if first <= datetime.datetime.fromisoformat(run_id) < last:
                return run_id
    return None


def _read_metadata(record: RunRecord, metadata: Path) -> None:
    """Sets TFX's id of a run, and what it pushed before a later component failed."""
    if not metadata.exists():
        return
    from pipeline.history.metadata import MetadataReader
    from pipeline.history.run_outputs import RunOutputs

    reader = MetadataReader(metadata)
    record.tfx_run_id = match_tfx_run(reader.run_ids(), record.id)
    if record.state != "failed" or record.tfx_run_id is None:
        return
    outputs = RunOutputs(reader, record.tfx_run_id)
    if outputs.has_ended:
        record.pushed = outputs.pushed


def _now() -> datetime.datetime:
    return datetime.datetime.now().astimezone()
