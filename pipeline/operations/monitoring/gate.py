"""Compares live metrics with those that the gate measured before the push."""

from __future__ import annotations

import datetime
import math
from collections.abc import Iterable, Sequence
from pathlib import Path

import pydantic
from scipy import stats

from contracts import metrics
from contracts.errors import UsageError
from contracts.records.evaluation import Evaluation, Number
from contracts.storage import json_lines, uris
from contracts.task.definition import TaskConfig
from contracts.versions import served_versions
from modules.evaluation import resampling

_LEAST_VERSIONS = 3  # for a rank correlation


class GateComparison(pydantic.BaseModel):
    """A metric of a version: live, and at the gate.

    Attributes:
      version: The version that predicted the rows.
      metric: The metric.
      gate: Its value on the gate's split.
      live: Its value on the labelled rows.
      low: Lower end of the 95 % interval of `difference`.
      high: Upper end of that interval.
      p: Probability of a difference this large if rows of both had the same metric.
      rows: The labelled rows.
      decides: Whether it is the metric of the task.
      is_alarm: Whether it decides, and is significantly below the gate's, or NaN.
      time: When they were compared.
    """

    version: str
    metric: str
    gate: Number
    live: Number
    low: Number
    high: Number
    p: Number
    rows: int
    decides: bool
    is_alarm: bool
    time: datetime.datetime = pydantic.Field(
        default_factory=lambda: datetime.datetime.now(datetime.timezone.utc)
    )

    @property
    def difference(self) -> float:
        """The live value minus the gate's."""
        return self.live - self.gate


def read_evaluation(directory: str, version: str) -> Evaluation | None:
    """Returns the evaluation of a version, also of one that was rolled back.

    Returns:
      None if the version was deleted, or was copied by hand.

    Raises:
      UsageError: The file cannot be read.
    """
    for parent in (directory, uris.join(directory, served_versions.WITHDRAWN)):
        path = uris.join(parent, version)
        try:
            content = served_versions.read_evaluation(path)
            if content is not None:
                return Evaluation.model_validate(content)
        except UsageError:
            raise
        except (OSError, ValueError) as error:
            raise UsageError(
                uris.join(path, served_versions.EVALUATION_FILE),
                f"cannot be read: {error}",
                advice="restore it, or delete it to compare nothing with the gate",
                name="E-record-damaged",
            ) from error
    return None


def compare(
    version: str,
    evaluation: Evaluation,
    rows: metrics.Rows,
    task: TaskConfig,
    significance: float,
) -> list[GateComparison]:
    """Compares the metrics of labelled rows with those of the gate.

    The rows of both are different ones. The error of a metric is taken from its 95 %
    interval, and the difference is tested as normally distributed.

    Args:
      version: The version that predicted the rows.
      evaluation: Its evaluation.
      rows: The labelled rows.
      task: The task.
      significance: A difference below the gate's is an alarm if p is below this.

    Returns:
      The metrics with an interval at the gate, that of the task first.
    """
    values = metrics.compute(task.classes, rows)
    intervals = resampling.confidence_intervals(task, rows)
    quantile = float(stats.norm.ppf((1 + metrics.CONFIDENCE) / 2))
    comparisons = []
    for name, estimate in evaluation.metrics.items():
        if estimate.interval is None or name not in values:
            continue
        widths = [high - low for low, high in (estimate.interval, intervals[name])]
        error = math.hypot(*widths) / (2 * quantile)
        difference = values[name] - estimate.value
        p = 2 * float(stats.norm.sf(abs(difference) / error)) if error else math.nan
        decides = name == evaluation.metric
        comparisons.append(
            GateComparison(
                version=version,
                metric=name,
                gate=estimate.value,
                live=values[name],
                low=difference - quantile * error,
                high=difference + quantile * error,
                p=p,
                rows=len(rows),
                decides=decides,
                # Without rows of a class, its metric may be NaN, which is no alarm.
                is_alarm=decides
                and ((difference < 0 and p < significance) or not rows.is_finite),
            )
        )
    return sorted(comparisons, key=lambda comparison: not comparison.decides)


def record(path: Path, compared: Iterable[GateComparison]) -> list[GateComparison]:
    """Appends the metric of the task to a history; returns the last one by version.

    Raises:
      UsageError: The file cannot be read or written.
    """
    try:
        for comparison in compared:
            if comparison.decides:
                json_lines.append(path, comparison)
        entries = json_lines.read(path, GateComparison)
        latest = {entry.version: entry for entry in entries}
    except OSError as error:
        raise UsageError(
            "history",
            f"{path}: {error.strerror}",
            advice="correct the cause, or name another file",
            name="E-storage-failed",
        ) from error
    return sorted(latest.values(), key=lambda entry: int(entry.version))


def rank_correlation(history: Sequence[GateComparison]) -> tuple[float, float] | None:
    """Returns Spearman's correlation of gate and live over versions, and its p-value.

    Returns:
      None with fewer than three versions, or if all have the same value.
    """
    if len(history) < _LEAST_VERSIONS:
        return None
    gate, live = ([getattr(e, name) for e in history] for name in ("gate", "live"))
    if len(set(gate)) == 1 or len(set(live)) == 1:
        return None
    result = stats.spearmanr(gate, live)
    return float(result.statistic), float(result.pvalue)
