"""The confidence interval of a metric on the rows that it counts."""

from __future__ import annotations

import bisect
import math

import numpy as np
from scipy import stats

from contracts.metrics import CONFIDENCE, Metric


def count_rows(
    metric: Metric, counts: np.ndarray, rows: int | None = None
) -> tuple[int, str]:
    """Returns the number of rows that a metric counts, and their description.

    Args:
      metric: A metric of the task.
      counts: Rows of each class, or of each score of a regression, int64[labels].
      rows: All rows, if each may have several labels or none. None: it has one.
    """
    if metric.deciding_rows == "labels":
        return int(counts.sum()), "labels"
    if metric.deciding_rows == "class":
        assert metric.class_id is not None
        return int(counts[metric.class_id]), f"rows of `{metric.class_name}`"
    if metric.deciding_rows == "smaller class":
        if rows is None:
            return int(counts.min()), "rows of the smaller class"
        assert metric.class_id is not None
        positives = int(counts[metric.class_id])
        smaller, which = min((positives, "with"), (rows - positives, "without"))
        return smaller, f"rows {which} `{metric.class_name}`"
    if metric.deciding_rows == "every class":
        # An absent label counts 0 whatever a model predicts, so nothing is measured.
        if not counts.any() or (rows is not None and not counts.all()):
            return 0, "rows of the rarest label"
        # A mean over classes varies as much as a metric of this many rows of one class.
        present = counts[counts > 0]
        weighted = int(len(present) ** 2 / np.sum(1 / present))
        return weighted, "rows, weighted by class,"
    return int(counts.sum()) if rows is None else rows, "rows"


def find_interval(metric: Metric, value: float, rows: int) -> tuple[float, float]:
    """Returns the 95 % interval around a metric's value on a number of rows."""
    if not _is_correlation(metric):
        if not rows:
            return 0.0, 1.0
        test = stats.binomtest(round(value * rows), rows)
        interval = test.proportion_ci(CONFIDENCE, method="wilson")
        return float(interval.low), float(interval.high)
    if rows <= 3:  # Fisher's z has a standard error of 1 / sqrt(rows - 3)
        return -1.0, 1.0
    z = np.arctanh(min(value, 1 - 1e-9))
    margin = stats.norm.ppf((1 + CONFIDENCE) / 2) / math.sqrt(rows - 3)
    return float(np.tanh(z - margin)), float(np.tanh(z + margin))


def find_limit(metric: Metric, max_interval: float) -> float:
    """Returns the largest half width of a metric's interval.

    Args:
      metric: A metric of the task.
      max_interval: The limit for metrics from 0 to 1. That for correlations is twice as
        large.
    """
    return max_interval * (2 if _is_correlation(metric) else 1)


def is_exact(
    metric: Metric,
    value: float,
    counts: np.ndarray,
    max_interval: float,
    rows: int | None = None,
) -> bool:
    """Returns whether a split has enough rows to decide on a threshold.

    Args:
      metric: A metric of the task.
      value: The threshold; 0 and less decide nothing.
      counts: As for `count_rows`.
      max_interval: See `find_limit`.
      rows: As for `count_rows`.
    """
    if value <= 0:
        return True
    counted, _ = count_rows(metric, counts, rows)
    return half_width(metric, value, counted) <= find_limit(metric, max_interval)


def half_width(metric: Metric, value: float, rows: int) -> float:
    """Returns half the width of `find_interval`."""
    low, high = find_interval(metric, value, rows)
    return (high - low) / 2


def needed_rows(metric: Metric, value: float, limit: float) -> int:
    """Returns the least number of rows whose half width is within a limit."""
    return bisect.bisect_left(
        range(1 << 30),
        True,
        key=lambda rows: half_width(metric, value, rows) <= limit,
    )


def _is_correlation(metric: Metric) -> bool:
    return metric.low < 0
