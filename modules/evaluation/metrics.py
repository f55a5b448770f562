"""Metrics over all predictions of a split."""

from __future__ import annotations

import dataclasses
import math
import warnings
from typing import Any

import numpy as np
from scipy import stats
from sklearn import metrics as sklearn_metrics

from modules.config.task import CLASS_METRICS, TaskConfig, class_metric

POSITIVE_CLASS = 1


@dataclasses.dataclass(frozen=True)
class Predictions:
    """A model's predictions on a split, in the order of its examples.

    Attributes:
      ids: int64[examples].
      labels: int64[examples], or float32[examples] of a regression.
      outputs: Probabilities float32[examples, classes], or scores float32[examples].
      losses: float32[examples].
    """

    ids: np.ndarray
    labels: np.ndarray
    outputs: np.ndarray
    losses: np.ndarray


def compute(task: TaskConfig, predictions: Predictions) -> dict[str, float]:
    """Computes the metrics of a task, `loss` among them.

    All of them are NaN if an output is not finite: scikit-learn refuses NaN, and the
    argmax of NaN probabilities is class 0.

    Args:
      task: Determines the metrics.
      predictions: On every example of a split.
    """
    if not np.all(np.isfinite(predictions.outputs)):
        return dict.fromkeys(("loss", *task.metrics), math.nan)
    values = {"loss": float(np.mean(predictions.losses, dtype=np.float64))}
    if task.is_regression:
        values |= _regression(predictions.labels, predictions.outputs)
    elif task.is_binary:
        values |= _binary(predictions.labels, predictions.outputs)
    else:
        values |= _multiclass(predictions.labels, predictions.outputs)
    if task.classes is not None:
        values |= _by_class(task.classes, predictions.labels, predictions.outputs)
    return {name: float(value) for name, value in values.items()}


def score(value: float | None) -> float:
    """Returns a metric for ranking: NaN, and None as JSON stores it, rank last."""
    return -math.inf if value is None or math.isnan(value) else value


def pearson(labels: np.ndarray, scores: np.ndarray) -> float:
    """Returns Pearson's correlation of two float[rows]; NaN if one is constant."""
    return _correlation(stats.pearsonr, labels, scores)


def spearman(labels: np.ndarray, scores: np.ndarray) -> float:
    """Returns Spearman's correlation of two float[rows]; NaN if one is constant."""
    return _correlation(stats.spearmanr, labels, scores)


def pearson_spearman(labels: np.ndarray, scores: np.ndarray) -> float:
    """Returns the mean of both correlations, by which GLUE ranks STS-B."""
    return (pearson(labels, scores) + spearman(labels, scores)) / 2


def matthews(labels: np.ndarray, classes: np.ndarray) -> float:
    """Returns Matthews' correlation of two int[rows]; 0 if one is constant."""
    return float(sklearn_metrics.matthews_corrcoef(labels, classes))


def macro_f1(labels: np.ndarray, classes: np.ndarray) -> float:
    """Returns the mean F1 of the classes in either of two int[rows]; NaN if empty."""
    if not len(labels):
        return math.nan
    return float(sklearn_metrics.f1_score(labels, classes, average="macro"))


def _binary(labels: np.ndarray, probabilities: np.ndarray) -> dict[str, float]:
    classes = probabilities.argmax(axis=-1)
    counted = {"pos_label": POSITIVE_CLASS, "zero_division": 0.0}
    has_both = 0 < labels.sum() < len(labels)
    return {
        "accuracy": sklearn_metrics.accuracy_score(labels, classes),
        "f1": sklearn_metrics.f1_score(labels, classes, **counted),
        "precision": sklearn_metrics.precision_score(labels, classes, **counted),
        "recall": sklearn_metrics.recall_score(labels, classes, **counted),
        "matthews": matthews(labels, classes),
        "auc": sklearn_metrics.roc_auc_score(labels, probabilities[:, POSITIVE_CLASS])
        if has_both
        else math.nan,
    }


def _multiclass(labels: np.ndarray, probabilities: np.ndarray) -> dict[str, float]:
    classes = probabilities.argmax(axis=-1)
    return {
        "accuracy": sklearn_metrics.accuracy_score(labels, classes),
        "f1": macro_f1(labels, classes),
    }


def _by_class(
    names: list[str], labels: np.ndarray, probabilities: np.ndarray
) -> dict[str, float]:
    """Returns the metrics of each class; 0 where nothing is counted, as in TFMA's."""
    *columns, _ = sklearn_metrics.precision_recall_fscore_support(
        labels,
        probabilities.argmax(axis=-1),
        labels=range(len(names)),
        zero_division=0.0,
    )
    return {
        class_metric(kind, name): value
        for kind, values in zip(CLASS_METRICS, columns, strict=True)
        for name, value in zip(names, values, strict=True)
    }


def _regression(labels: np.ndarray, scores: np.ndarray) -> dict[str, float]:
    return {
        "mse": sklearn_metrics.mean_squared_error(labels, scores),
        "mae": sklearn_metrics.mean_absolute_error(labels, scores),
        "pearson": pearson(labels, scores),
        "spearman": spearman(labels, scores),
        "pearson_spearman": pearson_spearman(labels, scores),
    }


def _correlation(function: Any, labels: np.ndarray, scores: np.ndarray) -> float:
    if len(labels) < 2:
        return math.nan
    with warnings.catch_warnings():
        # SciPy warns of constant input, which is common in small slices; NaN shows it.
        warnings.simplefilter("ignore", RuntimeWarning)
        return float(function(labels, scores)[0])
