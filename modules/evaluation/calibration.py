"""Probabilities that mean something: their calibration, and temperature scaling.

Both are those of Guo et al. 2017, "On Calibration of Modern Neural Networks". Each of
several labels of a row counts as a row of two classes. The calibration error compares
the probability of a label with the share of rows that have it: most labels are absent
from most rows, and the confidence in their absence would hide the error of the others.
"""

from __future__ import annotations

import itertools
import math

import numpy as np
from scipy import optimize, special

from contracts import metrics
from contracts.metrics import Rows
from contracts.records.probabilities import Calibration, CalibrationBin

_BINS = 10
_BOUNDS = (-3.0, 3.0)  # of the logarithm of a temperature
# Standard deviation of its prior. Without one, the temperature of a model that is right
# about all rows would be 0, and all of its probabilities 0 or 1.
_DEVIATION = 0.5


def fill_bins(labels: np.ndarray, probabilities: np.ndarray) -> list[CalibrationBin]:
    """Returns the bins of rows whose probabilities are finite.

    Args:
      labels: int64[rows], or int64[rows, classes] of several labels.
      probabilities: float[rows, classes].
    """
    if labels.ndim == 1:
        confidences = probabilities.max(axis=-1)
        is_right = Rows.of(labels, probabilities).is_right
    else:
        confidences, is_right = probabilities.ravel(), labels.ravel() == 1
    is_finite = np.isfinite(confidences)
    confidences, is_right = confidences[is_finite], is_right[is_finite]
    indices = np.minimum((confidences * _BINS).astype(int), _BINS - 1)
    bins = []
    edges = np.linspace(0.0, 1.0, _BINS + 1).tolist()
    for index, (low, high) in enumerate(itertools.pairwise(edges)):
        inside = indices == index
        count = int(inside.sum())
        confidence = float(confidences[inside].mean()) if count else math.nan
        accuracy = float(is_right[inside].mean()) if count else math.nan
        bins.append(
            CalibrationBin(
                low=low,
                high=high,
                rows=count,
                confidence=confidence,
                accuracy=accuracy,
            )
        )
    return bins


def measure(labels: np.ndarray, probabilities: np.ndarray) -> Calibration:
    """Measures the calibration; NaN without rows or if a probability is not finite.

    Args:
      labels: int64[rows], or int64[rows, classes] of several labels.
      probabilities: float[rows, classes].
    """
    if not len(labels) or not np.isfinite(probabilities).all():
        return Calibration(
            expected_calibration_error=math.nan, brier=math.nan, loss=math.nan
        )
    error = sum(
        row.rows / labels.size * abs(row.accuracy - row.confidence)
        for row in fill_bins(labels, probabilities)
        if row.rows
    )
    labels, probabilities = _as_classes(labels, probabilities)
    actual = np.eye(probabilities.shape[1])[labels.astype(int)]
    return Calibration(
        expected_calibration_error=error,
        brier=float(((probabilities - actual) ** 2).sum(axis=1).mean()),
        loss=float(Rows.of(labels, probabilities).losses.mean()),
    )


def fit_temperature(labels: np.ndarray, probabilities: np.ndarray) -> float:
    """Returns the temperature with the lowest loss (section 4.2).

    Args:
      labels: int64[rows], or int64[rows, classes] of several labels.
      probabilities: float[rows, classes], without a temperature.

    Returns:
      The temperature, from 0.05 to 20; 1 if a probability is not finite.
    """
    if not np.isfinite(probabilities).all():
        return 1.0
    labels, probabilities = _as_classes(labels, probabilities)
    logits = _log(probabilities)
    rows = np.arange(len(labels))

    def loss(logarithm: float) -> float:
        scaled = special.log_softmax(logits / math.exp(logarithm), axis=1)
        prior = (logarithm / _DEVIATION) ** 2 / 2
        return prior - scaled[rows, labels.astype(int)].sum()

    fitted = optimize.minimize_scalar(loss, bounds=_BOUNDS, method="bounded")
    return float(math.exp(fitted.x))


def scale(
    probabilities: np.ndarray, temperature: float, *, are_independent: bool = False
) -> np.ndarray:
    """Returns the probabilities of logits that are divided by a temperature.

    Args:
      probabilities: float[rows, classes], without a temperature.
      temperature: Above 1 makes them less certain.
      are_independent: Whether they are those of several labels.
    """
    if are_independent:
        logits = _log(probabilities) - _log(1 - probabilities)
        return special.expit(logits / temperature)
    return special.softmax(_log(probabilities) / temperature, axis=1)


def _as_classes(
    labels: np.ndarray, probabilities: np.ndarray
) -> tuple[np.ndarray, np.ndarray]:
    """Returns the rows, or one row of two classes for each of several labels."""
    if labels.ndim == 1:
        return labels, probabilities
    return labels.ravel(), metrics.of_two_classes(probabilities.ravel())


def _log(probabilities: np.ndarray) -> np.ndarray:
    """Returns logits, up to a constant of each row, float64[rows, classes]."""
    least = np.finfo(np.float32).tiny
    return np.log(np.maximum(probabilities.astype(np.float64), least))
