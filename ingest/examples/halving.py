"""Whether the rows of `eval` are enough for two splits."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping, Sequence

import numpy as np

from modules.config.task import TaskConfig


@dataclasses.dataclass(frozen=True)
class Halving:
    """When `eval` of data without `test` is halved: one half chooses, one evaluates.

    Attributes:
      thresholds: `evaluator.thresholds`.
      max_interval: `data_gate.max_interval`.
    """

    thresholds: Mapping[str, float]
    max_interval: float

    def allows(self, task: TaskConfig, halves: Sequence[np.ndarray]) -> bool:
        """Returns whether each half is large enough for the thresholds.

        Halves of equal labels are not: DataGate refuses all of them as `eval`.

        Args:
          task: The classes.
          halves: Indices of classes, or scores, float64[rows]; or 0 and 1,
            float64[rows, classes].
        """
        # Every command imports this file, and `--help` must not wait for SciPy.
        from modules.data import threshold_interval

        has_threshold = any(threshold > 0 for threshold in self.thresholds.values())
        return has_threshold and all(
            len(labels)
            and np.ptp(labels)
            and threshold_interval.is_exact(
                task.metric_table[name],
                threshold,
                count_labels(task, labels),
                self.max_interval,
                len(labels) if task.is_multilabel else None,
            )
            for labels in halves
            for name, threshold in self.thresholds.items()
        )


def count_labels(task: TaskConfig, labels: np.ndarray) -> np.ndarray:
    """Returns the rows of each class, or of all scores, int64[classes or 1]."""
    if task.is_multilabel:
        return labels.sum(axis=0).astype(int)
    if task.is_regression:
        return np.array([len(labels)])
    return np.bincount(labels.astype(int), minlength=task.outputs)
