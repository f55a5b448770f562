"""The record of a run: `run.json`, written when the run starts and when it ends.

    runs/ID/
      run.json         the outcome of the run
      config.yaml      the settings of the run, defaults included
      run.log          the output of TensorFlow, TFX and Beam
      progress.json    the states of the components, and the progress of the training
      data_card.json   the source of the rows; how many were used, refused and skipped
      skipped.jsonl    the rows that were skipped, and why
      report.html      the report, one page that opens without a network
      report.json      the numbers of the report
      model.svg        the graph of the model's layers

`tools/reference.py` reads this list.
"""

from __future__ import annotations

import contextlib
import datetime
import json
import logging
from collections.abc import Iterator, Mapping
from pathlib import Path

import pydantic

from contracts.commits import Commits
from contracts.errors import DataRefusedError
from contracts.run_states import DATA_REFUSED, PUSHED, REFUSED, RunState
from contracts.storage import file_format
from pipeline.config.recipe import Config
from pipeline.operations import damage
from pipeline.operations.run_outputs import RunOutputs
from report.run_metadata import MetadataError, MetadataReader

FILE = "run.json"
SETTINGS_FILE = "config.yaml"
LOG_FILE = "run.log"
_ID_FORMAT = "%Y%m%d-%H%M%SZ-%f"
_UTC = datetime.timezone.utc

logger = logging.getLogger(__name__)


class RunRecord(pydantic.BaseModel):
    """The record of a run.

    Attributes:
      id: The name of its directory below `runs/`: its start; see `new_id`.
      recipe: The recipe's name.
      state: Its state. It stays `running` if the process was killed; `runs.RunList`
        corrects that.
      ended: When it ended.
      metric: The metric that decides, by the recipe's task.
      value: Its value on all rows of `evaluator.split`; None if it was not evaluated.
      pushed: Directory of the version that the run pushed, or that an override pushed.
      reason: Why nothing was pushed, or which signal stopped it.
      commits: The commits of recipe and code.
      tfx_run_id: TFX's id of the run in ML Metadata; None before the first component.
      dependencies: What `dependencies.find` returns; empty before the encoder is known.
      damage: Why the record cannot be read; empty if it can. It is not written.
    """

    id: str
    recipe: str
    state: RunState = "running"
    ended: pydantic.AwareDatetime | None = None
    metric: str = ""
    value: float | None = None
    pushed: str | None = None
    reason: str = ""
    commits: Commits | None = None
    tfx_run_id: str | None = None
    dependencies: dict[str, str] = {}
    damage: str = pydantic.Field("", exclude=True)

    @property
    def started(self) -> datetime.datetime:
        """When it started, in UTC."""
        return _parse_id(self.id)

    @property
    def seconds(self) -> float | None:
        """Duration up to now or to its end.

        It is None if a killed run's end is unknown, or if the clock was set back.
        """
        if self.ended is None and self.state != "running":
            return None
        seconds = ((self.ended or _now()) - self.started).total_seconds()
        return seconds if seconds >= 0 else None

    def finish(self, pushed: str | None, reason: str, value: float | None) -> None:
        """Sets the outcome of a run whose components have all ended."""
        self.state = REFUSED if pushed is None else PUSHED
        self.pushed, self.reason, self.value = pushed, reason, value

    def stop(self, reason: str, directory: Path) -> None:
        """Writes why a run stops; its state is `running` until its process ends."""
        self.reason, self.ended = reason, _now()
        self.write(directory)

    def write(self, directory: Path) -> None:
        """Writes the record, or replaces it."""
        path = directory / FILE
        # `model_dump_json` writes null for NaN, which `json.dumps` would not.
        content = file_format.with_format(json.loads(self.model_dump_json()))
        incomplete = path.with_suffix(".incomplete")
        incomplete.write_text(json.dumps(content, indent=1) + "\n", encoding="utf-8")
        incomplete.replace(path)


def read(directory: Path) -> RunRecord:
    """Reads a record; if that fails, its state is `failed`, and `damage` says why."""
    path = directory / FILE
    try:
        content = file_format.parse(path.read_bytes(), path)
        record = RunRecord.model_validate(content)
    except (OSError, ValueError) as error:  # damaged, or just deleted
        advice = f"{damage.ADVICE}, or delete the directory of the run"
        return RunRecord(
            id=directory.name,
            recipe="",
            state="failed",
            damage=damage.describe(path, error, advice),
        )
    record.id = directory.name  # a copy has the id of the original
    record.damage = ""
    return record


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
        record.ended = _now()
        try:
            if metadata.exists():
                reader = MetadataReader.of_file(metadata)
                record.tfx_run_id = match_tfx_run(reader.run_times(), record.id)
                if record.state == "failed":  # perhaps after the push
                    record.pushed = RunOutputs(reader, record.tfx_run_id).pushed
        except MetadataError as error:  # the error of the run is raised, not this one
            logger.warning("%s", error)
        record.write(directory)


def new_id() -> str:
    """Returns the id of a run that starts now: the time in UTC, with a `Z`."""
    return _now().strftime(_ID_FORMAT)


def is_id(name: str) -> bool:
    """Returns whether a name is the id of a run."""
    with contextlib.suppress(ValueError):
        _parse_id(name)
        return True
    return False


def match_tfx_run(
    tfx_runs: Mapping[str, datetime.datetime],
    record: str,
    next_record: str | None = None,
) -> str | None:
    """Returns TFX's id of a run.

    Only one run at a time writes to an output directory, so at most one TFX run starts
    between two records.

    Args:
      tfx_runs: TFX's ids of all runs, and when ML Metadata stored them, the oldest
        first.
      record: The id of the run's record.
      next_record: The id of the next record; None for the last run.
    """
    for tfx_run_id, stored in reversed(list(tfx_runs.items())):
        if _is_since(record, stored) and not (
            next_record and _is_since(next_record, stored)
        ):
            return tfx_run_id
    return None


def _is_since(record: str, stored: datetime.datetime) -> bool:
    started = _parse_id(record)
    # ML Metadata stores whole milliseconds.
    milliseconds = started.microsecond // 1000
    return stored >= started.replace(microsecond=milliseconds * 1000)


def _parse_id(run_id: str) -> datetime.datetime:
    return datetime.datetime.strptime(run_id, _ID_FORMAT).replace(tzinfo=_UTC)


def _now() -> datetime.datetime:
    return datetime.datetime.now(_UTC)
