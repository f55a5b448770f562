"""The rows of the files on this machine, by split."""

from __future__ import annotations

import itertools
import os
from collections.abc import Iterator

import numpy as np

from modules.config.task import TaskConfig
from pipeline.config.sections import DataConfig
from pipeline.inputs.examples import splits, splitting
from pipeline.inputs.examples.row_values import RowParser
from pipeline.inputs.examples.sources import ReadRow, Source, file_format_of
from pipeline.inputs.examples.splits import OpenSplit, Report, Row
from pipeline.inputs.rows import hugging_face
from pipeline.inputs.rows.row_errors import Location, RowError

# A split whose first rows are all malformed has no columns to check.
_FIRST_ROWS = 1000


def open_splits(
    source: Source, task: TaskConfig, settings: DataConfig, report: Report
) -> dict[str, OpenSplit | None]:
    """Returns the rows of each split of a source.

    Args:
      source: The files. Without splits, their rows are split.
      task: Names the columns.
      settings: How the files are read and split.
      report: Called with a line for the user.

    Returns:
      The splits; None for one without labels.

    Raises:
      UsageError: A split or a column is missing.
    """
    if not source.has_splits:
        return _split(source, task, settings)
    splits.require_splits(source.location, filter(None, source.files), "train.csv")
    opened: dict[str, OpenSplit | None] = {}
    for split in source.files:
        assert split is not None
        name = source.describe(split)
        rows = list(itertools.islice(source.read(split, settings, task), _FIRST_ROWS))
        first = _first_row(row for _, row in rows)
        if (rows and first is None) or splits.has_labels(name, split, first, task):
            names = _class_names(source, split, task, settings)
            opened[split] = OpenSplit(source.read(split, settings, task), names)
            continue
        reason = "only -1 for" if first and task.label_column in first else "no column"
        report(f"{os.path.basename(name)} has {reason} {task.label_column}: left out")
        opened[split] = None
    return opened


def _split(
    source: Source, task: TaskConfig, settings: DataConfig
) -> dict[str, OpenSplit | None]:
    first = _first_row(
        row
        for _, row in itertools.islice(source.read(None, settings, task), _FIRST_ROWS)
    )
    splits.has_labels(source.describe(None), splits.TRAIN, first, task)
    names = _class_names(source, None, task, settings)
    rows = (row for _, row in source.read(None, settings, task))
    is_eval = splitting.choose_eval_rows(rows, task, settings, RowParser(task, names))

    def chosen(mask: np.ndarray) -> Iterator[tuple[Location, ReadRow]]:
        return itertools.compress(source.read(None, settings, task), mask)

    # Bad rows are reported with those of `train`.
    return {
        splits.TRAIN: OpenSplit(chosen(~is_eval), names),
        splits.EVAL: OpenSplit(chosen(is_eval), names),
    }


def _first_row(rows: Iterator[ReadRow]) -> Row | None:
    return next((row for row in rows if not isinstance(row, RowError)), None)


def _class_names(
    source: Source, split: str | None, task: TaskConfig, settings: DataConfig
) -> list[str] | None:
    path = source.files[split][0]
    return hugging_face.class_names(
        path, file_format_of(path, settings), task.label_column
    )
