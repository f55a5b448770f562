"""Judges the slices by columns: values that make no slices, or too small ones."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

import numpy as np

from modules import metrics
from modules.config.slices import MOST_VALUES, SliceSettings
from modules.config.task import TaskConfig
from modules.data import threshold_interval
from modules.data.judgment import SHOWN, Finding
from modules.data.slice_columns import MISSING

# Kinds of findings.
NO_SLICES = "no slices"
MANY_SLICES = "many slices"
LOST_SLICE = "slice that no model passes"
SMALL_SLICES = "small slices"

# Rows by value and label, at most one value more than are allowed. A regression has one
# label.
Counts = Mapping[str, Sequence[int]]


def count_row(
    counts: dict[str, list[int]],
    value: str,
    label: int,
    task: TaskConfig,
    rows: int = 1,
) -> None:
    """Adds rows to `Counts`; the label of a regression is 0."""
    if value in counts or len(counts) <= MOST_VALUES:
        counts.setdefault(value, [0] * task.outputs)[label] += rows


def judge(
    counts: Mapping[str, Counts], task: TaskConfig, settings: SliceSettings, split: str
) -> Iterator[Finding]:
    """Yields why slices are refused, or are not judged.

    Args:
      counts: The rows of the evaluated split by column.
      task: The classes.
      settings: The thresholds of slices.
      split: The evaluated split.
    """
    for column, rows_by_value in counts.items():
        if not {*rows_by_value} - {MISSING}:
            message = (
                f"{split}: no row has a value of {column}, which data.slice_columns "
                "names; add the column to the Examples, or leave it out"
            )
            yield Finding(NO_SLICES, split, message, is_refused=True)
        elif len(rows_by_value) > MOST_VALUES:
            shown = ", ".join(map(repr, sorted(rows_by_value)[:SHOWN]))
            message = (
                f"{split}: {column} has more than {MOST_VALUES} values, such as "
                f"{shown}, and data.slice_columns makes a slice of each; join rare "
                "values, or leave the column out"
            )
            yield Finding(MANY_SLICES, split, message, is_refused=True)
        elif thresholds := settings.thresholds.get(column):
            small = {
                value: sum(rows)
                for value, rows in rows_by_value.items()
                if sum(rows) < settings.min_rows
            }
            if small:
                yield _small_slices(column, small, len(rows_by_value), settings, split)
            for value in sorted({*rows_by_value} - {*small}):
                rows = np.array(rows_by_value[value])
                for name, threshold in thresholds.items():
                    metric = metrics.of_task(task.classes)[name]
                    counted, kind = threshold_interval.count_rows(metric, rows)
                    if counted or threshold <= 0:
                        continue
                    message = (
                        f"{split}: the slice {column} {value} has no {kind}, so that "
                        f"no model reaches evaluator.slice_thresholds {name} "
                        f"{threshold:g} there; add such rows, or leave {name} out"
                    )
                    yield Finding(LOST_SLICE, split, message, is_refused=True)


def _small_slices(
    column: str,
    small: Mapping[str, int],
    slices: int,
    settings: SliceSettings,
    split: str,
) -> Finding:
    """Returns the finding of slices that are too small to be judged."""
    most = sorted(small.items(), key=lambda item: (-item[1], item[0]))
    shown = ", ".join(f"{value} ({rows})" for value, rows in most[:SHOWN])
    more = f" and {len(small) - SHOWN} more" if len(small) > SHOWN else ""
    effect = (
        "evaluator.slice_thresholds decides nothing"
        if len(small) == slices
        else "their metrics are reported, but not judged"
    )
    message = (
        f"{split}: {len(small)} of {slices} slices by {column} have fewer than "
        f"{settings.min_rows} rows (evaluator.min_slice_rows): {shown}{more}; "
        f"{effect}: add rows, join values, or lower the setting"
    )
    is_refused = len(small) == slices
    return Finding(SMALL_SLICES, split, message, is_refused=is_refused)
