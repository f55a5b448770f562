"""Thresholds of probabilities: of the positive class of two, or of each label."""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np

from contracts import metrics
from contracts.metrics import POSITIVE_CLASS, Rows, Sample, Threshold, of_two_classes
from contracts.records.probabilities import DecisionPoint
from contracts.task.decision import MICRO_F1, ONE_LABEL, DecisionConfig
from contracts.task.definition import TaskConfig

# Labels with fewer positive rows share a threshold.
LEAST_POSITIVE_ROWS = 20
_SHOWN = ("precision", "recall", "f1", "accuracy")
_SHOWN_POINTS = 200  # of a curve
_DEFAULT = 0.5
# The next float32 after 1: a sigmoid can be exactly 1.
_ABOVE_ALL = float(np.nextafter(np.float32(1), np.float32(2)))
_DIGITS = 12  # metrics that differ less are equal
# A row for each label and predicted class: the cells of a confusion matrix. The metrics
# of many thresholds are computed as many samples of these rows.
_LABELS, _PREDICTED = np.array([0, 0, 1, 1]), np.array([0, 1, 0, 1])
_CELLS = Rows.of(_LABELS, np.eye(2)[_PREDICTED])
_MAXIMIZED = ("f1", "matthews")
_F1 = DecisionConfig(maximize="f1")


def measure(
    classes: Sequence[str],
    config: DecisionConfig,
    labels: np.ndarray,
    probabilities: np.ndarray,
    threshold: float,
) -> DecisionPoint:
    """Measures a threshold on some rows; NaN if a probability is not finite.

    Args:
      classes: The two classes.
      config: The rule.
      labels: int64[rows].
      probabilities: float[rows, 2].
      threshold: The threshold.
    """
    rows = Rows.of(labels, probabilities, threshold=threshold)
    if not rows.is_finite or not len(rows):
        return DecisionPoint(
            threshold=threshold,
            value=math.nan,
            metrics=dict.fromkeys(_SHOWN, math.nan),
        )
    cells = 2 * rows.labels + rows.predictions
    counts = np.bincount(cells.astype(int), minlength=len(_LABELS))
    (point,) = _points(classes, config, np.array([threshold]), counts[:, np.newaxis])
    return point


def choose_threshold(
    classes: Sequence[str],
    config: DecisionConfig,
    labels: np.ndarray,
    probabilities: np.ndarray,
) -> tuple[DecisionPoint, list[DecisionPoint]]:
    """Chooses the threshold by the rows of a split.

    No threshold is better on these rows: all cuts between two probabilities are
    compared, as the exported graph compares them in float32, and so are 0, which
    always predicts the positive class, and the next number after 1, which never does.
    A cut is in the middle of two probabilities, or at 0.5 if that is between them. Of
    equally good cuts the one next to 0.5 is chosen.

    Args:
      classes: The two classes.
      config: The rule.
      labels: int64[rows].
      probabilities: float[rows, 2]. If one is not finite, the threshold is 0.5.

    Returns:
      The chosen point, and at most 201 points of the curve, in the order of their
      thresholds. If no threshold has the least precision, the chosen one has the
      highest, and of these the highest recall.
    """
    positive = probabilities[:, POSITIVE_CLASS].astype(np.float32)
    if not len(positive) or not np.isfinite(positive).all():
        point = measure(classes, config, labels, probabilities, _DEFAULT)
        return point, [point]
    values, indices = np.unique(positive, return_inverse=True)
    middles = ((values[1:].astype(float) + values[:-1]) / 2).astype(np.float32)
    # Between two neighbors in float32 there is none.
    middles = np.where(middles > values[:-1], middles, values[1:])
    thresholds = np.concatenate([[0.0], middles, [_ABOVE_ALL]])
    default = np.searchsorted(values, _DEFAULT)
    thresholds[default] = _DEFAULT
    negatives, positives = (
        np.bincount(indices, labels == label) for label in range(len(classes))
    )
    # The rows of each class below each threshold, and above it.
    other, missed = (
        np.concatenate([[0], rows.cumsum()]) for rows in (negatives, positives)
    )
    counts = np.array([other, other[-1] - other, missed, missed[-1] - missed])
    # Every other cut gets better by moving it past rows of one class.
    changes = 1 + np.flatnonzero((negatives[:-1] > 0) & (positives[1:] > 0))
    candidates = np.unique([0, default, *changes, len(values)])
    chosen = _best(classes, config, thresholds[candidates], counts[:, candidates])
    best = candidates[chosen]
    drawn = np.linspace(0, len(thresholds) - 1, _SHOWN_POINTS).astype(int)
    shown = np.unique([*drawn, best])
    points = _points(classes, config, thresholds[shown], counts[:, shown])
    return points[np.searchsorted(shown, best)], points


def choose_label_thresholds(
    config: DecisionConfig, labels: np.ndarray, probabilities: np.ndarray
) -> tuple[list[DecisionPoint], list[int]]:
    """Chooses the threshold of each of several labels by the rows of a split.

    A threshold chosen on few positive rows depends on each of them. Labels with fewer
    than 20 share one, chosen on the rows of all of them together; it is 0.5 if they
    have fewer than 20 together. For the highest micro-F1, all labels share one.

    Args:
      config: The rule.
      labels: int64[rows, labels].
      probabilities: float[rows, labels].

    Returns:
      The point of each label, and the indices of the labels with fewer than 20.
    """
    positive_rows = (labels == POSITIVE_CLASS).sum(axis=0)
    rare = np.flatnonzero(positive_rows < LEAST_POSITIVE_ROWS).tolist()
    groups = [[index] for index in range(len(positive_rows)) if index not in rare]
    if config.maximize == MICRO_F1:
        groups = [list(range(len(positive_rows)))]
    elif rare:
        groups.append(rare)
    by_label: dict[int, DecisionPoint] = {}
    for group in groups:
        rows = labels[:, group].ravel(), of_two_classes(probabilities[:, group].ravel())
        if positive_rows[group].sum() < LEAST_POSITIVE_ROWS:
            point = measure(ONE_LABEL, config, *rows, _DEFAULT)
        else:
            point, _ = choose_threshold(ONE_LABEL, config, *rows)
        by_label |= dict.fromkeys(group, point)
    return [by_label[index] for index in range(len(positive_rows))], rare


def find_threshold(
    config: DecisionConfig,
    labels: np.ndarray,
    outputs: np.ndarray,
    classes: Sequence[str] = ONE_LABEL,
) -> Threshold:
    """Returns the threshold of a model's outputs, as `Rows.of` takes it.

    Args:
      config: The rule. `DecisionConfig(maximize="f1")` is the F1-optimal one.
      labels: int64[rows], or int64[rows, labels] of several.
      outputs: Probabilities float[rows, 2], or float[rows, labels].
      classes: The two classes; `config` may name one of them.
    """
    if labels.ndim == 2:
        points, _ = choose_label_thresholds(config, labels, outputs)
        return [point.threshold for point in points]
    return choose_threshold(classes, config, labels, outputs)[0].threshold


def selection_threshold(
    task: TaskConfig, labels: np.ndarray, probabilities: np.ndarray
) -> metrics.Threshold:
    """Returns the best threshold for the deciding metric on some rows.

    The best checkpoint, seed and trial are chosen by evaluations at this threshold. It
    does not follow `task.decision`, so that another decision trains nothing. At 0.5, no
    probability of a rare class may reach it, and then all F1 are 0.

    Precision and recall take the threshold for F1: their own best would predict one row
    or all. With several labels, `macro_f1` and the metrics of a label have a threshold
    for each label; the others share the one with the highest micro-F1.

    Args:
      task: The classes and the deciding metric.
      labels: int64[rows], or int64[rows, classes] of several labels.
      probabilities: float[rows, classes].

    Returns:
      As in `Rows.of`. None if the metric needs no threshold: an AUC, or accuracy, for
      which the most probable class is predicted.
    """
    metric = task.metric_table[task.metric]
    kind, _, name = task.metric.partition("/")
    if metric.needs_probabilities:
        return None
    if labels.ndim == 2:
        if kind == "macro_f1" or name:
            return [
                choose_threshold(ONE_LABEL, _F1, rows, of_two_classes(p))[0].threshold
                for rows, p in zip(labels.T, probabilities.T, strict=True)
            ]
        return find_threshold(
            _F1, labels.ravel(), of_two_classes(probabilities.ravel())
        )
    if not task.label_kind.decided_names or metric.is_share_of_right:
        return None
    kind = kind if kind in _MAXIMIZED else "f1"
    by = metrics.class_metric(kind, name) if name else kind
    return find_threshold(
        DecisionConfig(maximize=by), labels, probabilities, task.label_kind.names
    )


def _best(
    classes: Sequence[str],
    config: DecisionConfig,
    thresholds: np.ndarray,
    counts: np.ndarray,
) -> int:
    """Returns the index of the best threshold.

    Args:
      classes: The two classes.
      config: The rule.
      thresholds: float64[thresholds].
      counts: Rows in each of `_CELLS`, float64[4, thresholds].
    """
    by = _values(classes, config, counts)
    nearness = -np.abs(thresholds - _DEFAULT)
    keys: tuple[np.ndarray, ...]
    if config.costs:
        keys = (nearness, -by)
    elif config.min_precision is None:
        keys = (nearness, np.round(by, _DIGITS))
    else:
        table = metrics.for_kind("binary", classes)
        precision = table["precision"].values(Sample(_CELLS, counts))
        is_enough = precision >= config.min_precision
        reached = np.where(is_enough, config.min_precision, precision)
        keys = (nearness, precision, by, reached)
    return int(np.lexsort(keys)[-1])


def _points(
    classes: Sequence[str],
    config: DecisionConfig,
    thresholds: np.ndarray,
    counts: np.ndarray,
) -> list[DecisionPoint]:
    """Measures thresholds; see `_best` for the arguments."""
    table, sample = (
        metrics.for_kind("binary", classes),
        Sample(_CELLS, counts.astype(float)),
    )
    values = _values(classes, config, counts).tolist()
    shown = [table[name].values(sample).tolist() for name in _SHOWN]
    return [
        DecisionPoint(
            threshold=threshold,
            value=value,
            metrics=dict(zip(_SHOWN, row, strict=True)),
        )
        for threshold, value, *row in zip(
            thresholds.tolist(), values, *shown, strict=True
        )
    ]


def _values(
    classes: Sequence[str], config: DecisionConfig, counts: np.ndarray
) -> np.ndarray:
    """Returns the value that the rule compares, float64[thresholds]; see `_best`."""
    if config.costs is None:
        table = metrics.for_kind("binary", classes)
        return table[config.value_name].values(Sample(_CELLS, counts))
    highest = config.costs.highest  # the sum of high costs could overflow
    cost = np.zeros((2, 2))
    cost[0, 1] = config.costs.false_positive / highest
    cost[1, 0] = config.costs.false_negative / highest
    return cost[_LABELS, _PREDICTED] @ counts / counts.sum(axis=0) * highest
