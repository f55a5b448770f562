"""Whether the rows of `eval` are enough for two splits."""

from __future__ import annotations

import dataclasses
from collections.abc import Collection, Sequence

import numpy as np

from contracts.metrics import Metric
from contracts.task.definition import TaskConfig


@dataclasses.dataclass(frozen=True)
class Halving:
    """When `eval` of data without `test` is halved: one half chooses, one evaluates.

    Attributes:
      metrics: The names of `evaluator.thresholds`.
      max_interval: `data_gate.max_interval`.
    """

    metrics: Collection[str]
    max_interval: float

    def allows(self, task: TaskConfig, halves: Sequence[np.ndarray]) -> bool:
        """Returns whether each half is large enough for any threshold of the metrics.

        Another threshold must not change the Examples, which would train again. Halves
        of equal labels are too small: DataGate refuses all of them as `eval`.

        Args:
          task: The classes.
          halves: Indices of classes, or scores, float64[rows]; or 0 and 1,
            float64[rows, classes].
        """
        # Every command imports this file, and `--help` must not wait for SciPy.
        from modules.data.threshold_interval import count_rows, find_limit, half_width

        def is_large(labels: np.ndarray, metric: Metric) -> bool:
            kind = task.label_kind
            counts, total = kind.count(labels), kind.total(len(labels))
            counted, _ = count_rows(metric, counts, total)
            # The interval is widest there.
            width = half_width(metric, 0.0 if metric.low < 0 else 0.5, counted)
            return width <= find_limit(metric, self.max_interval)

        return all(
            len(labels)
            and np.ptp(labels) > 0
            and all(is_large(labels, task.metric_table[name]) for name in self.metrics)
            for labels in halves
        )
