"""The record of a run, its progress, and what is said of a file that is damaged.

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
import time
from collections.abc import Mapping
from pathlib import Path
from typing import TypeVar

import pydantic
import yaml

from contracts.commits import Commits
from contracts.errors import UsageError
from contracts.run_states import PUSHED, REFUSED, ComponentState, RunState
from contracts.storage import files

RECORD_FILE = "run.json"
SETTINGS_FILE = "config.yaml"
LOG_FILE = "run.log"
PROGRESS_FILE = "progress.json"
RESTORE = "restore it from a backup"
_ID_FORMAT = "%Y%m%d-%H%M%SZ-%f"
_UTC = datetime.timezone.utc
_SECONDS = 1.0  # between two writes of the progress

logger = logging.getLogger(__name__)

_File = TypeVar("_File", bound=pydantic.BaseModel)


class RunRecord(pydantic.BaseModel):
    """The record of a run.

    Attributes:
      id: The name of its directory below `runs/`: its start; see `new_run_id`.
      recipe: The recipe's name.
      state: Its state. It stays `running` if the process was killed; `runs.RunList`
        corrects that.
      ended: When it ended.
      metric: The metric that decides, by the recipe's task.
      value: Its value on all rows of `evaluator.split`; None if it was not evaluated.
      checks: The status of each check by its name.
      pushed: Directory of the version that the run pushed, or that an override pushed.
      reason: Why nothing was pushed, or which signal stopped it.
      commits: The commits of recipe and code.
      tfx_run_id: TFX's id of the run in ML Metadata; None before the first component.
      dependencies: Of libraries and encoder; empty before the encoder is known.
      damage: Why the record cannot be read; empty if it can. It is not written.
    """

    id: str
    recipe: str
    state: RunState = "running"
    ended: pydantic.AwareDatetime | None = None
    metric: str = ""
    value: float | None = None
    checks: dict[str, str] = {}
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

    def finish(
        self,
        pushed: str | None,
        reason: str,
        value: float | None,
        checks: dict[str, str],
    ) -> None:
        """Sets the outcome of a run whose components have all ended."""
        self.state = REFUSED if pushed is None else PUSHED
        self.pushed, self.reason, self.value = pushed, reason, value
        self.checks = checks

    def stop(self, reason: str, directory: Path) -> None:
        """Writes why a run stops; its state is `running` until its process ends."""
        self.reason, self.ended = reason, _now()
        self.write(directory)

    def write(self, directory: Path) -> None:
        """Writes the record, or replaces it."""
        path = directory / RECORD_FILE
        # `model_dump_json` writes null for NaN, which `json.dumps` would not.
        content = files.with_format(json.loads(self.model_dump_json()))
        incomplete = path.with_suffix(".incomplete")
        incomplete.write_text(json.dumps(content, indent=1) + "\n", encoding="utf-8")
        incomplete.replace(path)


def read_record(directory: Path) -> RunRecord:
    """Reads a record; if that fails, its state is `failed`, and `damage` says why."""
    path = directory / RECORD_FILE
    try:
        content = files.parse_record(path.read_bytes(), path)
        record = RunRecord.model_validate(content)
    except (OSError, ValueError) as error:  # damaged, or just deleted
        advice = f"{RESTORE}, or delete the directory of the run"
        return RunRecord(
            id=directory.name,
            recipe="",
            state="failed",
            damage=describe_damage(path, error, advice),
        )
    record.id = directory.name  # a copy has the id of the original
    record.damage = ""
    return record


def new_run_id() -> str:
    """Returns the id of a run that starts now: the time in UTC, with a `Z`."""
    return _now().strftime(_ID_FORMAT)


def is_run_id(name: str) -> bool:
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


class _Part(pydantic.BaseModel):
    # A loss may be NaN, which JSON does not have: pydantic writes and reads a string.
    model_config = pydantic.ConfigDict(ser_json_inf_nan="strings")


class ComponentProgress(_Part):
    """A component of the run.

    Attributes:
      name: The component.
      state: Its state.
      started: When it started, in seconds since the epoch; None before.
      seconds: Its duration; None until it ends.
      note: Its last log message, or its result.
    """

    name: str
    state: ComponentState
    started: float | None = None
    seconds: float | None = None
    note: str = ""


class TrainingProgress(_Part):
    """The training from one seed.

    Attributes:
      seed: The seed.
      step: Steps trained.
      steps: Steps to train.
      examples_per_second: Speed since the start.
      seconds_left: Estimated time to its end; None until the second loop of steps.
      best: Text that describes the best evaluation so far.
      loss_steps: The steps of `losses`.
      losses: The training loss by step.
    """

    seed: int
    step: int
    steps: int
    examples_per_second: float
    seconds_left: float | None = None
    best: str = ""
    loss_steps: list[int] = []
    losses: list[float] = []


class Progress(_Part):
    """The progress of a run.

    Attributes:
      components: The components in the order in which they run.
      training: The training from the latest seed; None before the first.
    """

    components: list[ComponentProgress] = []
    training: TrainingProgress | None = None


class ProgressFile:
    """Writes the progress of a run to its record, at most once a second."""

    def __init__(self, directory: Path) -> None:
        self._path = directory / PROGRESS_FILE
        self._written = -_SECONDS

    def write(self, progress: Progress, *, is_urgent: bool = False) -> None:
        """Replaces the file, if it is urgent or a second after the last time."""
        if not is_urgent and time.monotonic() - self._written < _SECONDS:
            return
        incomplete = self._path.with_suffix(".incomplete")
        incomplete.write_text(progress.model_dump_json(), encoding="utf-8")
        incomplete.replace(self._path)
        self._written = time.monotonic()


def read_progress(directory: Path) -> Progress:
    """Returns the progress in a run's record; empty if it is missing or damaged."""
    try:
        return Progress.model_validate_json((directory / PROGRESS_FILE).read_bytes())
    except (OSError, pydantic.ValidationError):
        return Progress()


def damage_error(
    path: object,
    error: Exception,
    advice: str = RESTORE,
    *,
    name: str = "E-record-damaged",
) -> UsageError:
    """Returns the error of a file for that of its reader.

    If the file has the format of another release, the stable name is its own.
    """
    match error:
        case files.FormatError():
            return UsageError(*error.args[:-1], name=error.name)
        case FileNotFoundError():
            return UsageError(str(path), "missing", advice=advice, name=name)
        case OSError():
            reason = error.strerror or type(error).__name__
        case UnicodeDecodeError():
            reason = f"byte {error.start + 1} is not UTF-8"
        case json.JSONDecodeError():
            reason = f"not JSON, line {error.lineno} column {error.colno}"
        case pydantic.ValidationError():
            (first, *_) = error.errors()
            where = ".".join(map(str, first["loc"]))
            reason = first["msg"]
            if isinstance(refused := first.get("ctx", {}).get("error"), UsageError):
                reason = refused.sentence()
            reason = f"{where}: {reason}" if where else reason
        case yaml.YAMLError():
            reason = "not YAML"
        case _:
            reason = type(error).__name__
    return UsageError(str(path), f"cannot be read: {reason}", advice=advice, name=name)


def describe_damage(path: object, error: Exception, advice: str = RESTORE) -> str:
    """Returns the sentence of `damage_error`."""
    return damage_error(path, error, advice).sentence()


def read_file(
    path: str, model: type[_File], number: int = files.FORMAT
) -> _File | None:
    """Reads a record that a run wrote.

    Args:
      path: The file.
      model: Its content.
      number: The format number that this release reads.

    Returns:
      The record; None if there is no file, or, after a warning, if it is damaged.
    """
    try:
        content = files.read_record(path, number)
        return None if content is None else model.model_validate(content)
    except (OSError, ValueError) as error:
        logger.warning("%s", describe_damage(path, error))
        return None
