"""The threshold at which a model in training is evaluated.

The best checkpoint, seed and trial are chosen by these evaluations. They do not use
`task.decision`, so that another decision trains nothing, and not 0.5 either: no
probability of a rare class may reach it, and then all F1 are 0.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from contracts import metrics
from contracts.task.decision import ONE_LABEL, DecisionConfig
from contracts.task.definition import TaskConfig
from modules.evaluation.decision import choose_threshold

_MAXIMIZED = ("f1", "matthews")


def selection_threshold(
    task: TaskConfig, labels: np.ndarray, probabilities: np.ndarray
) -> metrics.Threshold:
    """Returns the best threshold for the deciding metric on some rows.

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
    decides_on = task.label_kind.decides_on
    if decides_on == "labels":
        if kind == "macro_f1" or name:
            columns = zip(labels.T, probabilities.T, strict=True)
            return [_of_label(*column) for column in columns]
        return _of_label(labels.ravel(), probabilities.ravel())
    if decides_on is None or metric.is_share_of_right:
        return None
    kind = kind if kind in _MAXIMIZED else "f1"
    by = metrics.class_metric(kind, name) if name else kind
    return _maximize(by, task.label_kind.names, labels, probabilities)


def _of_label(labels: np.ndarray, probabilities: np.ndarray) -> float:
    """Returns the best threshold for F1 of a label, int64[rows] and float[rows]."""
    return _maximize("f1", ONE_LABEL, labels, metrics.of_two_classes(probabilities))


def _maximize(
    by: str, classes: Sequence[str], labels: np.ndarray, probabilities: np.ndarray
) -> float:
    config = DecisionConfig(maximize=by)
    return choose_threshold(classes, config, labels, probabilities)[0].threshold
