"""How exactly a metric is known from the rows that it counts."""

from __future__ import annotations

import bisect
import math

import numpy as np
from scipy import stats

from modules.config.task import TaskConfig

_CONFIDENCE = 0.95
_CORRELATIONS = ("matthews", "pearson", "spearman", "pearson_spearman")
_OF_ONE_CLASS = ("precision", "recall", "f1")
_POSITIVE_CLASS = 1
_MOST_ROWS = 1 << 30


def count_rows(
    metric: str, counts: np.ndarray, task: TaskConfig
) -> tuple[int, str] | None:
    """Returns how many rows decide a metric, and which; None for an unknown metric.

    Args:
      metric: Its name; that of one class is `recall/CLASS`.
      counts: Rows of each class, int64[classes]; of a regression all rows, int64[1].
      task: The classes.
    """
    name, _, class_name = metric.partition("/")
    classes = task.classes or []
    if name in _OF_ONE_CLASS and task.is_binary and not class_name:
        class_name = classes[_POSITIVE_CLASS]
    if class_name:
        if name not in _OF_ONE_CLASS or class_name not in classes:
            return None
        return int(counts[classes.index(class_name)]), f"rows of `{class_name}`"
    if name not in task.metrics:
        return None
    if name == "auc":
        return int(counts.min()), "rows of the smaller class"
    if name == "f1":
        # The mean over the classes varies as much as on this many rows of one.
        present = counts[counts > 0]
        rows = int(len(present) ** 2 / np.sum(1 / present))
        return rows, "rows, weighted by class,"
    return int(counts.sum()), "rows"


def find_interval(metric: str, value: float, rows: int) -> tuple[float, float]:
    """Returns the 95 % interval of a metric with a value on some rows."""
    name, _, _ = metric.partition("/")
    if name not in _CORRELATIONS:
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


def find_limit(metric: str, max_interval: float) -> float:
    """Returns the largest half width of a metric's interval.

    Args:
      metric: Its name.
      max_interval: That of a metric from 0 to 1. A correlation goes from -1 to 1, so
        that it may be twice as wide.
    """
    name, _, _ = metric.partition("/")
    return max_interval * (2 if name in _CORRELATIONS else 1)


def is_exact(
    metric: str,
    value: float,
    counts: np.ndarray,
    task: TaskConfig,
    max_interval: float,
) -> bool:
    """Returns whether the rows of a split decide on a threshold.

    Args:
      metric: Its metric.
      value: The threshold; 0 and less decide nothing.
      counts: Rows of each class, int64[classes]; of a regression by score.
      task: The classes.
      max_interval: See `find_limit`.
    """
    counted = count_rows(metric, counts, task)
    if counted is None or value <= 0:
        return True
    return half_width(metric, value, counted[0]) <= find_limit(metric, max_interval)


def half_width(metric: str, value: float, rows: int) -> float:
    """Returns half the width of `find_interval`."""
    low, high = find_interval(metric, value, rows)
    return (high - low) / 2


def needed_rows(metric: str, value: float, limit: float) -> int:
    """Returns from about how many rows on the interval is within a limit."""
    return bisect.bisect_left(
        range(_MOST_ROWS),
        True,
        key=lambda rows: half_width(metric, value, rows) <= limit,
    )
