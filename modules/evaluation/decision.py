"""The threshold of the probability at which the positive class of two is predicted."""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Sequence

import numpy as np

from modules import metrics
from modules.config.decision import DecisionConfig
from modules.metrics import POSITIVE_CLASS, Rows, Sample

_SHOWN = ("precision", "recall", "f1", "accuracy")
_SHOWN_POINTS = 200  # of a curve
_DIGITS = 6  # of recorded probabilities; closer ones differ by rounding
# A row for each label and predicted class: the cells of a confusion matrix. The metrics
# of many thresholds are those of many samples of these rows.
_LABELS, _PREDICTED = np.array([0, 0, 1, 1]), np.array([0, 1, 0, 1])
_CELLS = Rows.of(_LABELS, np.eye(2)[_PREDICTED])


@dataclasses.dataclass(frozen=True)
class Point:
    """What a threshold leads to.

    Attributes:
      threshold: The positive class is predicted from this probability on.
      value: What the threshold is chosen by: a metric, the mean cost of a row, or the
        recall.
      metrics: Metrics of the positive class, and accuracy, by name.
    """

    threshold: float
    value: float
    metrics: dict[str, float]


def measure(
    classes: Sequence[str],
    config: DecisionConfig,
    labels: np.ndarray,
    probabilities: np.ndarray,
    threshold: float,
) -> Point:
    """Returns what a threshold leads to on some rows; NaN if one is not finite.

    Args:
      classes: The two classes.
      config: What the threshold is chosen by.
      labels: int64[rows].
      probabilities: float[rows, 2].
      threshold: The threshold.
    """
    rows = Rows.of(labels, probabilities, threshold=threshold)
    if not rows.is_finite or not len(rows):
        return Point(threshold, math.nan, dict.fromkeys(_SHOWN, math.nan))
    cells = 2 * rows.labels + rows.predictions
    counts = np.bincount(cells.astype(int), minlength=len(_LABELS))
    values, shown = _evaluate(classes, config, counts[:, np.newaxis].astype(float))
    return Point(threshold, values.item(), {k: v.item() for k, v in shown.items()})


def choose_threshold(
    classes: Sequence[str],
    config: DecisionConfig,
    labels: np.ndarray,
    probabilities: np.ndarray,
) -> tuple[Point, list[Point]]:
    """Chooses the threshold by the rows of a split.

    Thresholds are in the middle between two probabilities of rows. Of equally good ones
    the one next to 0.5 is chosen.

    Args:
      classes: The two classes.
      config: What is best.
      labels: int64[rows].
      probabilities: float[rows, 2]. If one is not finite, the threshold is 0.5.

    Returns:
      The chosen point, and at most 201 points of the curve, in the order of their
      thresholds. If no threshold has the least precision, the chosen one has the
      highest.
    """
    positive = np.round(probabilities[:, POSITIVE_CLASS].astype(float), _DIGITS)
    if not np.isfinite(positive).all():
        point = measure(classes, config, labels, probabilities, 0.5)
        return point, [point]
    order = np.argsort(positive)
    values = np.unique(positive)
    # As the exported graph has them.
    middles = ((values[1:] + values[:-1]) / 2).astype(np.float32).astype(float)
    thresholds = np.unique([*middles, 0.5])
    # The rows below each threshold, and how many of them are positive.
    below = np.searchsorted(positive[order], thresholds)
    is_positive = (labels[order] == POSITIVE_CLASS).astype(float)
    missed = np.concatenate([[0.0], np.cumsum(is_positive)])[below]
    rows, positives = len(labels), is_positive.sum()
    right = positives - missed
    counts = np.array([below - missed, rows - below - right, missed, right])
    by, shown = _evaluate(classes, config, counts)
    nearness = -np.abs(thresholds - 0.5)
    keys: tuple[np.ndarray, ...]
    if config.costs:
        keys = (nearness, -by)
    elif config.min_precision is None:
        keys = (nearness, np.nan_to_num(by, nan=-np.inf))
    else:
        precision = shown["precision"]
        is_enough = precision >= config.min_precision
        keys = (nearness, by, np.where(is_enough, config.min_precision, precision))
    best = int(np.lexsort(keys)[-1])
    drawn = np.linspace(0, len(thresholds) - 1, _SHOWN_POINTS).astype(int)
    points = {
        index: Point(
            float(thresholds[index]),
            float(by[index]),
            {name: float(column[index]) for name, column in shown.items()},
        )
        for index in sorted({*drawn.tolist(), best})
    }
    return points[best], list(points.values())


def _evaluate(
    classes: Sequence[str], config: DecisionConfig, counts: np.ndarray
) -> tuple[np.ndarray, dict[str, np.ndarray]]:
    """Returns the values and the metrics of thresholds.

    Args:
      classes: The two classes.
      config: What the value is.
      counts: Rows in each of `_CELLS`, float64[4, thresholds].
    """
    table, sample = metrics.of_task(classes), Sample(_CELLS, counts)
    shown = {name: table[name].values(sample) for name in _SHOWN}
    if config.costs is None:
        return table[config.maximize or "recall"].values(sample), shown
    cost = np.zeros((2, 2))
    cost[0, 1], cost[1, 0] = config.costs.false_positive, config.costs.false_negative
    return cost[_LABELS, _PREDICTED] @ counts / counts.sum(axis=0), shown
