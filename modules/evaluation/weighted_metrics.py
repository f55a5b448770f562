"""Metrics of many resamples at once, from how often each resample draws each row."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable

import numpy as np

from modules.config.task import CLASS_METRICS, TaskConfig, class_metric
from modules.evaluation.metrics import POSITIVE_CLASS

_EPSILON = 1e-7  # least probability in the loss, as in Keras

# Weights float64[units, resamples] to the values of each metric, float64[resamples].
Metrics = Callable[[np.ndarray], dict[str, np.ndarray]]


@dataclasses.dataclass(frozen=True)
class Units:
    """What resamples draw: rows, or groups of rows that are alike to the metrics.

    Attributes:
      counts: Rows in each unit, int64[units].
      models: The metrics of each model on the units.
    """

    counts: np.ndarray
    models: list[Metrics]


def rows(task: TaskConfig, labels: np.ndarray, *outputs: np.ndarray) -> Units:
    """Returns the rows, and the metrics that depend on probabilities or scores.

    Args:
      task: Determines the metrics.
      labels: int64[rows], or float[rows] of a regression.
      outputs: Of each model probabilities float[rows, classes], or scores float[rows].
    """
    of_rows = _of_scores if task.is_regression else _of_probabilities
    models = [_if_finite(each, of_rows(labels, each)) for each in outputs]
    return Units(np.ones(len(labels), int), models)


def cells(task: TaskConfig, labels: np.ndarray, *outputs: np.ndarray) -> Units:
    """Returns the cells of the confusion matrix, and the metrics that depend on it.

    They have one axis for the label and one for the prediction of each model.

    Args:
      task: Has classes.
      labels: int64[rows].
      outputs: Probabilities of each model, float[rows, classes].
    """
    assert task.classes is not None
    columns = [labels.astype(int), *(each.argmax(axis=1) for each in outputs)]
    shape = [len(task.classes)] * len(columns)
    indices = np.ravel_multi_index(columns, shape)
    indices, counts = np.unique(indices, return_counts=True)
    actual, *predicted = np.unravel_index(indices, shape)
    models = [
        _if_finite(each, _of_classes(task, task.classes, actual, classes))
        for each, classes in zip(outputs, predicted, strict=True)
    ]
    return Units(counts, models)


def _if_finite(outputs: np.ndarray, metrics: Metrics) -> Metrics:
    """Returns metrics that are NaN if an output is not finite, as `metrics.compute`."""
    if np.all(np.isfinite(outputs)):
        return metrics
    return lambda weights: dict.fromkeys(
        metrics(weights), np.full(weights.shape[1], np.nan)
    )


def _of_classes(
    task: TaskConfig, names: list[str], labels: np.ndarray, predicted: np.ndarray
) -> Metrics:
    """Returns the metrics of predicted classes, as `metrics.compute` defines them."""
    one_hot = np.eye(len(names))
    masks = [one_hot[labels], one_hot[predicted], one_hot[labels] * one_hot[predicted]]

    def metrics(weights: np.ndarray) -> dict[str, np.ndarray]:
        actual, positive, true = (mask.T @ weights for mask in masks)
        by_kind = {
            "precision": _ratio(true, positive),
            "recall": _ratio(true, actual),
            "f1": _ratio(2 * true, actual + positive),
        }
        values = {"accuracy": true.sum(axis=0) / actual.sum(axis=0)}
        if task.is_binary:
            values |= {kind: of[POSITIVE_CLASS] for kind, of in by_kind.items()}
            values["matthews"] = _matthews(actual, positive, true)
        else:
            counted = actual + positive > 0  # scikit-learn's mean is over these
            values["f1"] = by_kind["f1"].sum(axis=0) / counted.sum(axis=0)
        for kind in CLASS_METRICS:
            for index, name in enumerate(names):
                values[class_metric(kind, name)] = by_kind[kind][index]
        return values

    return metrics


def _matthews(actual: np.ndarray, positive: np.ndarray, true: np.ndarray) -> np.ndarray:
    total = actual.sum(axis=0)
    covariance = true.sum(axis=0) * total - (actual * positive).sum(axis=0)
    variances = [total**2 - (each**2).sum(axis=0) for each in (actual, positive)]
    return _ratio(covariance, np.sqrt(variances[0] * variances[1]))


def _of_probabilities(labels: np.ndarray, outputs: np.ndarray) -> Metrics:
    likelihood = np.take_along_axis(outputs, labels[:, None].astype(int), axis=1)[:, 0]
    losses = -np.log(np.maximum(likelihood.astype(float), _EPSILON))
    if outputs.shape[1] > 2:
        return lambda weights: {"loss": losses @ weights / weights.sum(axis=0)}
    probabilities = outputs[:, POSITIVE_CLASS].astype(float)
    positive = labels == POSITIVE_CLASS
    order, starts, _ = _ties(probabilities)

    def metrics(weights: np.ndarray) -> dict[str, np.ndarray]:
        drawn = weights[order]
        true = np.add.reduceat(drawn * positive[order, None], starts)
        false = np.add.reduceat(drawn, starts) - true
        below = np.cumsum(false, axis=0) - false / 2
        pairs = true.sum(axis=0) * false.sum(axis=0)
        return {
            "loss": losses @ weights / weights.sum(axis=0),
            "auc": _ratio(np.einsum("gr,gr->r", true, below), pairs, np.nan),
            "calibration": _ratio(probabilities @ weights, positive @ weights, np.nan),
        }

    return metrics


def _of_scores(labels: np.ndarray, scores: np.ndarray) -> Metrics:
    labels, scores = labels.astype(float), scores.astype(float)
    errors = scores - labels
    # A constant is 0 then, without a rounded mean.
    centered = [(each - each[0])[:, None] for each in (labels, scores)]
    ties = [_ties(labels), _ties(scores)]

    def metrics(weights: np.ndarray) -> dict[str, np.ndarray]:
        mse = errors**2 @ weights / weights.sum(axis=0)
        pearson = _pearson(weights, *centered)
        spearman = _pearson(weights, *(_ranks(weights, *each) for each in ties))
        return {
            "loss": mse,
            "mse": mse,
            "mae": np.abs(errors) @ weights / weights.sum(axis=0),
            "pearson": pearson,
            "spearman": spearman,
            "pearson_spearman": (pearson + spearman) / 2,
        }

    return metrics


def _ties(values: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Groups equal values, in their order.

    Args:
      values: float[rows].

    Returns:
      The order of the rows int64[rows], in that order the start of each group
      int64[groups], and the group of each row int64[rows].
    """
    _, starts, groups = np.unique(values, return_index=True, return_inverse=True)
    order = np.argsort(groups, kind="stable")
    return order, np.searchsorted(groups[order], np.arange(len(starts))), groups


def _ranks(
    weights: np.ndarray, order: np.ndarray, starts: np.ndarray, groups: np.ndarray
) -> np.ndarray:
    """Returns the mean rank of each row in each resample, but for a constant."""
    drawn = np.add.reduceat(weights[order], starts)
    return (np.cumsum(drawn, axis=0) - drawn / 2)[groups]


def _pearson(weights: np.ndarray, x: np.ndarray, y: np.ndarray) -> np.ndarray:
    """Returns the correlations; NaN if one is constant.

    Args:
      weights: float64[rows, resamples].
      x: float64[rows, 1 or resamples]; no constant but 0 or a multiple of 0.5.
      y: As `x`.
    """
    x, y = (each - _mean(weights, each) for each in (x, y))
    weighted = weights * x
    covariance, x_variance = (np.einsum("nr,nr->r", weighted, each) for each in (y, x))
    y_variance = np.einsum("nr,nr,nr->r", weights, y, y)
    return _ratio(covariance, np.sqrt(x_variance * y_variance), np.nan)


def _mean(weights: np.ndarray, values: np.ndarray) -> np.ndarray:
    """Returns the means of float64[rows, 1 or resamples], float64[resamples]."""
    return np.einsum("nr,nr->r", weights, values) / weights.sum(axis=0)


def _ratio(
    numerator: np.ndarray, denominator: np.ndarray, of_nothing: float = 0.0
) -> np.ndarray:
    """Divides; `of_nothing` where the denominator is 0."""
    result = np.full(numerator.shape, of_nothing)
    return np.divide(numerator, denominator, out=result, where=denominator > 0)
