"""Counts the rows of slices by columns, for DataGate and the Evaluator."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from contracts.settings.data import MOST_VALUES
from contracts.task.definition import TaskConfig
from contracts.task.several_labels import ALL_ROWS
from modules.data import threshold_interval

# Rows by value and label, at most one value more than are allowed. Of the scores of a
# regression, two are kept: whether they differ is all that matters. A row counts for
# each of several labels, and for `ALL_ROWS`.
Labels = dict[float, int]
Counts = dict[str, Labels]


def count_row(
    counts: Counts,
    value: str,
    label: float | Sequence[float],
    task: TaskConfig,
    rows: int = 1,
) -> None:
    """Adds rows with a value and a label, or with 0 or 1 for each of several labels."""
    if value not in counts and len(counts) > MOST_VALUES:
        return
    labels = counts.setdefault(value, {})
    for key in task.label_kind.slice_keys(label, labels):
        labels[key] = labels.get(key, 0) + rows


def count_deciding(metric: str, labels: Labels, task: TaskConfig) -> tuple[int, str]:
    """Returns how many rows of a slice a metric counts, and their description."""
    entry = task.metric_table[metric]
    counts = task.label_kind.slice_counts(labels)
    if entry.low < 0 and np.count_nonzero(counts) < 2:
        # No model has a correlation with labels that are all equal.
        return 0, "rows with different labels"
    return threshold_interval.count_rows(entry, counts, labels.get(ALL_ROWS))
