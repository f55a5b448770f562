"""Abstaining: a row gets no class if its predicted class is too improbable."""

from __future__ import annotations

import dataclasses
import math

import numpy as np


@dataclasses.dataclass(frozen=True)
class Point:
    """What a least probability leads to.

    Attributes:
      min_probability: A row gets a class from this probability of the class on.
      abstained: The rows without a class.
      accuracy: The share of the other rows that are predicted correctly; NaN without
        such rows.
    """

    min_probability: float
    abstained: int
    accuracy: float


def abstains(
    probabilities: np.ndarray, predicted: np.ndarray, min_probability: float
) -> np.ndarray:
    """Returns which rows get no class, bool[rows].

    Args:
      probabilities: float[rows, classes].
      predicted: The predicted classes, int[rows]. `task.decision` may predict another
        one than the most probable. Or float[rows], NaN if a probability is not finite;
        such a row gets no class.
      min_probability: The least probability of a predicted class.
    """
    return ~(_of_predicted(probabilities, predicted) >= min_probability)


def measure(
    labels: np.ndarray,
    probabilities: np.ndarray,
    predicted: np.ndarray,
    min_probability: float,
) -> Point:
    """Returns what a least probability leads to."""
    is_abstained = abstains(probabilities, predicted, min_probability)
    is_right = (labels == predicted)[~is_abstained]
    accuracy = float(is_right.mean()) if len(is_right) else math.nan
    return Point(min_probability, int(is_abstained.sum()), accuracy)


def curve(
    labels: np.ndarray, probabilities: np.ndarray, predicted: np.ndarray
) -> tuple[np.ndarray, np.ndarray]:
    """Returns what every least probability leads to that changes anything.

    Returns:
      The shares of rows without a class, ascending, and the accuracies of the others,
      both float64[points].
    """
    chosen = _of_predicted(probabilities, predicted)
    order = np.argsort(-chosen, kind="stable")  # NaN is last
    chosen, is_right = chosen[order], (labels == predicted)[order]
    # Rows of one probability get a class together: at the last of them.
    is_last = np.isfinite(chosen) & (chosen != np.append(chosen[1:], np.nan))
    kept = np.flatnonzero(is_last)[::-1] + 1
    return 1 - kept / len(chosen), np.cumsum(is_right)[kept - 1] / kept


def _of_predicted(probabilities: np.ndarray, predicted: np.ndarray) -> np.ndarray:
    is_finite = np.isfinite(predicted)
    indices = np.where(is_finite, predicted, 0).astype(int)
    chosen = np.take_along_axis(probabilities, indices[:, np.newaxis], axis=1)[:, 0]
    return np.where(is_finite, chosen, np.nan).astype(probabilities.dtype)
