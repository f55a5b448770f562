"""How exactly a metric is known from the rows that it counts."""

from __future__ import annotations

import bisect
import math

import numpy as np
from scipy import stats

from modules.metrics import Metric

_CONFIDENCE = 0.95
_MOST_ROWS = 1 << 30


def count_rows(metric: Metric, counts: np.ndarray) -> tuple[int, str]:
    """Returns how many rows decide a metric, and which.

    Args:
      metric: Of the task.
      counts: Rows of each class, int64[classes]; of a regression all rows, int64[1].
    """
    if metric.deciding_rows == "class":
        assert metric.class_id is not None
        return int(counts[metric.class_id]), f"rows of `{metric.class_name}`"
    if metric.deciding_rows == "smaller class":
        return int(counts.min()), "rows of the smaller class"
    if metric.deciding_rows == "every class":
        # The mean over the classes varies as much as on this many rows of one.
        present = counts[counts > 0]
        rows = int(len(present) ** 2 / np.sum(1 / present))
        return rows, "rows, weighted by class,"
    return int(counts.sum()), "rows"


def find_interval(metric: Metric, value: float, rows: int) -> tuple[float, float]:
    """Returns the 95 % interval of a metric with a value on some rows."""
    if not _is_correlation(metric):
        if not rows:
            return 0.0, 1.0
        test = stats.binomtest(round(value * rows), rows)
        interval = test.proportion_ci(_CONFIDENCE, method="wilson")
        return float(interval.low), float(interval.high)
    if rows <= 3:  # Fisher's z has a standard error of 1 / sqrt(rows - 3)
        return -1.0, 1.0
    z = np.arctanh(min(value, 1 - 1e-9))
    margin = stats.norm.ppf((1 + _CONFIDENCE) / 2) / math.sqrt(rows - 3)
    return float(np.tanh(z - margin)), float(np.tanh(z + margin))


def find_limit(metric: Metric, max_interval: float) -> float:
    """Returns the largest half width of a metric's interval.

    Args:
      metric: Of the task.
      max_interval: That of a metric from 0 to 1. A correlation may have twice as much.
    """
    return max_interval * (2 if _is_correlation(metric) else 1)


def is_exact(
    metric: Metric, value: float, counts: np.ndarray, max_interval: float
) -> bool:
    """Returns whether the rows of a split decide on a threshold.

    Args:
      metric: Of the task.
      value: The threshold; 0 and less decide nothing.
      counts: Rows of each class, int64[classes]; of a regression by score.
      max_interval: See `find_limit`.
    """
    if value <= 0:
        return True
    rows, _ = count_rows(metric, counts)
    return half_width(metric, value, rows) <= find_limit(metric, max_interval)


def half_width(metric: Metric, value: float, rows: int) -> float:
    """Returns half the width of `find_interval`."""
    low, high = find_interval(metric, value, rows)
    return (high - low) / 2


def needed_rows(metric: Metric, value: float, limit: float) -> int:
    """Returns from about how many rows on the interval is within a limit."""
    return bisect.bisect_left(
        range(_MOST_ROWS),
        True,
        key=lambda rows: half_width(metric, value, rows) <= limit,
    )


def _is_correlation(metric: Metric) -> bool:
    return metric.low < 0
