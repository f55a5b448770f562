"""Writes and reads the progress of a run: `progress.json` in its record."""

from __future__ import annotations

import time
from pathlib import Path

import pydantic

from contracts.run_states import ComponentState

FILE = "progress.json"
_SECONDS = 1.0  # between two writes


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
        self._path = directory / FILE
        self._written = -_SECONDS

    def write(self, progress: Progress, *, is_urgent: bool = False) -> None:
        """Replaces the file, if it is urgent or a second after the last time."""
        if not is_urgent and time.monotonic() - self._written < _SECONDS:
            return
        incomplete = self._path.with_suffix(".incomplete")
        incomplete.write_text(progress.model_dump_json(), encoding="utf-8")
        incomplete.replace(self._path)
        self._written = time.monotonic()


def read(directory: Path) -> Progress:
    """Returns the progress in a run's record; empty if it is missing or damaged."""
    try:
        return Progress.model_validate_json((directory / FILE).read_bytes())
    except (OSError, pydantic.ValidationError):
        return Progress()
