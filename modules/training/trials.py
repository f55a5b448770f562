"""The trials of a search: their record, which a killed search resumes from."""

from __future__ import annotations

import dataclasses
import json
import math
from collections.abc import Iterable
from typing import Any, Literal

from contracts import metrics
from contracts.storage import files, uris

_FILE = "search.json"
# TFX's Tuner writes this file; the artifact has no other.
_ARTIFACT_FILE = "best_hyperparameters.txt"
VALUES, TRIALS = "values", "trials"  # keys of the artifact

State = Literal["running", "completed", "pruned", "failed"]


@dataclasses.dataclass(frozen=True)
class Trial:
    """A training with the settings that a search proposed.

    Attributes:
      number: From 0.
      values: The searched settings.
      key: The checkpoint key of the training.
      is_new: Whether no earlier training has this key.
      state: `pruned` if it was stopped because it was below the median.
      value: The best metric of the evaluation split; None without one, or if it is NaN.
      loss: The validation loss of the same evaluation; None without one.
      evaluations: Each evaluation: tenths of an epoch, and the metric or None.
      seconds: Its duration since the search was last started.
      reason: Why it was pruned or failed.
      kills: How often the process ended during the trial without a signal to stop.
    """

    number: int
    values: dict[str, Any]
    key: str
    is_new: bool
    state: State = "running"
    value: float | None = None
    evaluations: list[tuple[int, float | None]] = dataclasses.field(
        default_factory=list
    )
    seconds: float = 0.0
    reason: str = ""
    kills: int = 0
    loss: float | None = None

    @property
    def score(self) -> float:
        """The value, or minus infinity."""
        return metrics.score(self.value)

    @property
    def shown(self) -> float | None:
        """The value, or that of the last evaluation of a pruned trial."""
        if self.state == "pruned" and self.evaluations:
            return self.evaluations[-1][1]
        return self.value

    @property
    def has_result(self) -> bool:
        """Whether it is completed with a metric that is not NaN."""
        return self.state == "completed" and self.score > -math.inf


def measured(evaluations: Iterable[tuple[int, float | None]]) -> dict[int, float]:
    """Returns the metrics that are not NaN by position; see `Trial.evaluations`."""
    return {
        position: value
        for position, value in evaluations
        if value is not None and not math.isnan(value)
    }


def order(trials: Iterable[Trial]) -> list[Trial]:
    """Returns the completed trials, the best first; see `metrics.rank`."""
    completed = [trial for trial in trials if trial.state == "completed"]
    return sorted(completed, key=lambda t: metrics.rank(t.value, t.loss), reverse=True)


def find_best(trials: Iterable[Trial]) -> Trial | None:
    """Returns the best completed trial, the first of equal ones."""
    return next(iter(order(trials)), None)


def read(directory: str) -> list[Trial]:
    """Reads the trials of a search; the last one may be running."""
    content = files.read_record(uris.join(directory, _FILE))
    return parse(content[TRIALS]) if content else []


def write(directory: str, trials: list[Trial]) -> None:
    """Writes the trials of a search."""
    files.write_record(uris.join(directory, _FILE), {TRIALS: describe(trials)})


def describe(trials: list[Trial]) -> list[dict[str, Any]]:
    """Returns trials as JSON."""
    return [dataclasses.asdict(trial) for trial in trials]


def parse(content: list[dict[str, Any]]) -> list[Trial]:
    """Returns the trials that `describe` described."""
    return [Trial(**fields) for fields in content]


def read_artifact(directory: str) -> tuple[dict[str, Any], list[Trial]]:
    """Reads what a search found.

    Args:
      directory: The `best_hyperparameters` of TFX's Tuner.

    Returns:
      The best settings, and all trials.
    """
    content = json.loads(files.read(uris.join(directory, _ARTIFACT_FILE)) or b"")
    return content[VALUES], parse(content[TRIALS])
