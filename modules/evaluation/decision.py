"""The threshold of the probability at which the positive class of two is predicted."""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Sequence

import numpy as np

from modules import metrics
from modules.config.decision import DecisionConfig
from modules.metrics import POSITIVE_CLASS, Rows

_MOST_THRESHOLDS = 1000
_SHOWN = ("precision", "recall", "f1", "accuracy")


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
    """Returns what a threshold leads to on some rows.

    Args:
      classes: The two classes.
      config: What the threshold is chosen by.
      labels: int64[rows].
      probabilities: float[rows, 2].
      threshold: The threshold.
    """
    rows = Rows.of(labels, probabilities, threshold=threshold)
    names = [*_SHOWN, *([config.maximize] if config.maximize else ["recall"])]
    values = metrics.compute(classes, rows, names)
    value = values[names[-1]]
    if config.costs:
        is_positive = rows.predictions == POSITIVE_CLASS
        value = float(
            np.where(
                rows.is_right,
                0.0,
                np.where(
                    is_positive,
                    config.costs.false_positive,
                    config.costs.false_negative,
                ),
            ).mean()
        )
    return Point(threshold, value, {name: values[name] for name in _SHOWN})


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
      The chosen point, and the points of at most 1,000 thresholds, in their order. If
      no threshold has the least precision, the chosen one has the highest.
    """
    positive = probabilities[:, POSITIVE_CLASS].astype(float)
    if not np.isfinite(positive).all():
        point = measure(classes, config, labels, probabilities, 0.5)
        return point, [point]
    values = np.unique(positive)
    middles = (values[1:] + values[:-1]) / 2
    if len(middles) > _MOST_THRESHOLDS:
        chosen = np.linspace(0, len(middles) - 1, _MOST_THRESHOLDS).astype(int)
        middles = middles[chosen]
    points = [
        measure(classes, config, labels, probabilities, float(threshold))
        for threshold in sorted({*middles.tolist(), 0.5})
    ]

    def rank(point: Point) -> tuple[float, ...]:
        nearness = -abs(point.threshold - 0.5)
        if config.costs:
            return (-point.value, nearness)
        if config.min_precision is None:
            return (metrics.score(point.value), nearness)
        precision = point.metrics["precision"]
        if precision >= config.min_precision:
            return (math.inf, point.value, nearness)
        return (precision, point.value, nearness)

    return max(points, key=rank), points
