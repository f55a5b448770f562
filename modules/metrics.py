"""The quality of predictions, counted over all of a split at once."""

from __future__ import annotations

import dataclasses
import math

import numpy as np
from scipy import stats
from sklearn import metrics as sklearn_metrics

from pipeline.task import TaskConfig

POSITIVE_CLASS = 1


@dataclasses.dataclass(frozen=True)
class Predictions:
    """What a model said of the examples of a split, in their order.

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

    Args:
      task: Tells classes from scores.
      predictions: On every example of a split.
    """
    values = {"loss": float(np.mean(predictions.losses, dtype=np.float64))}
    if task.is_regression:
        values |= _regression(predictions.labels, predictions.outputs)
    elif task.is_binary:
        values |= _binary(predictions.labels, predictions.outputs)
    else:
        values |= _multiclass(predictions.labels, predictions.outputs)
    return {name: float(value) for name, value in values.items()}


def score(value: float) -> float:
    """Returns a metric as what models are ranked by: NaN is the worst."""
    return -math.inf if math.isnan(value) else value


def _binary(labels: np.ndarray, probabilities: np.ndarray) -> dict[str, float]:
    classes = probabilities.argmax(axis=-1)
    counted = {"pos_label": POSITIVE_CLASS, "zero_division": 0.0}
    has_both = 0 < labels.sum() < len(labels)
    return {
        "accuracy": sklearn_metrics.accuracy_score(labels, classes),
        "f1": sklearn_metrics.f1_score(labels, classes, **counted),
        "precision": sklearn_metrics.precision_score(labels, classes, **counted),
        "recall": sklearn_metrics.recall_score(labels, classes, **counted),
        "matthews": sklearn_metrics.matthews_corrcoef(labels, classes),
        "auc": sklearn_metrics.roc_auc_score(labels, probabilities[:, POSITIVE_CLASS])
        if has_both
        else math.nan,
    }


def _multiclass(labels: np.ndarray, probabilities: np.ndarray) -> dict[str, float]:
    classes = probabilities.argmax(axis=-1)
    return {
        "accuracy": sklearn_metrics.accuracy_score(labels, classes),
        "f1": sklearn_metrics.f1_score(
            labels,
            classes,
            labels=range(probabilities.shape[-1]),
            average="macro",
            zero_division=0.0,
        ),
    }


def _regression(labels: np.ndarray, scores: np.ndarray) -> dict[str, float]:
    values = {
        "mse": sklearn_metrics.mean_squared_error(labels, scores),
        "mae": sklearn_metrics.mean_absolute_error(labels, scores),
        "pearson": math.nan,
        "spearman": math.nan,
    }
    if np.ptp(labels) and np.ptp(scores):  # of a constant there is no correlation
        values["pearson"] = stats.pearsonr(labels, scores)[0]
        values["spearman"] = stats.spearmanr(labels, scores)[0]
    values["pearson_spearman"] = (values["pearson"] + values["spearman"]) / 2
    return values
