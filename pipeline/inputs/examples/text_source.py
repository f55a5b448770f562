"""The rows of the files on this machine, by split."""

from __future__ import annotations

import itertools
import os
from collections.abc import Iterator, Mapping

import numpy as np

from modules.config.task import TaskConfig
from pipeline.config.errors import UsageError
from pipeline.config.sections import DataConfig
from pipeline.inputs.examples import splits, splitting
from pipeline.inputs.examples.row_values import RowParser
from pipeline.inputs.examples.sources import ReadRow, Source, file_format_of
from pipeline.inputs.examples.splits import OpenSplit, Report, by_index
from pipeline.inputs.rows import hugging_face
from pipeline.inputs.rows.row_errors import Location, RowError

# A split whose first rows are all malformed has no columns to check.
_FIRST_ROWS = 1000


def open_splits(
    source: Source,
    task: TaskConfig,
    settings: DataConfig,
    report: Report,
    class_of_value: Mapping[str, str] | None = None,
) -> dict[str, OpenSplit | None]:
    """Returns the rows of each split of a source.

    Args:
      source: The files. Without splits, their rows are split.
      task: Names the columns.
      settings: How the files are read and split.
      report: Called with a line for the user.
      class_of_value: The class by label; None takes the names that the files of each
        split have.

    Returns:
      The splits; None for one without labels.

    Raises:
      UsageError: A column is missing, or a split that a run needs has no rows.
    """
    opened: dict[str, OpenSplit | None] = {}
    for split in source.files:
        names = class_of_value
        if names is None:
            names = find_class_names(source, split, task.label_column, settings)
            splits.refuse_other_classes(source.describe(split), names, task)
        if split is None:
            return _split(source, task, settings, names)
        if _has_labels(source, split, task, settings, report):
            opened[split] = OpenSplit(source.read(split, settings, task), names)
        else:
            opened[split] = None
    return opened


def find_class_names(
    source: Source, split: str | None, column: str, settings: DataConfig
) -> dict[str, str]:
    """Returns the names of classes by index that the files of a split have.

    Raises:
      UsageError: Two files have different names.
    """
    paths = source.files[split]
    first, *others = (
        hugging_face.class_names(path, file_format_of(path, settings), column)
        for path in paths
    )
    for path, names in zip(paths[1:], others, strict=True):
        if names != first:
            raise UsageError(
                f"{paths[0]} has the classes {first} for {column}, and {path} {names}; "
                "save them again with the same names"
            )
    return by_index(first)


def _split(
    source: Source,
    task: TaskConfig,
    settings: DataConfig,
    class_of_value: Mapping[str, str],
) -> dict[str, OpenSplit | None]:
    _has_labels(source, None, task, settings, lambda _: None)
    rows = (row for _, row in source.read(None, settings, task))
    parser = RowParser(task, settings, class_of_value)
    is_eval = splitting.choose_eval_rows(rows, task, settings, parser)

    def chosen(mask: np.ndarray) -> Iterator[tuple[Location, ReadRow]]:
        return itertools.compress(source.read(None, settings, task), mask)

    # Bad rows are reported with those of `train`.
    return {
        splits.TRAIN: OpenSplit(chosen(~is_eval), class_of_value),
        splits.EVAL: OpenSplit(chosen(is_eval), class_of_value),
    }


def _has_labels(
    source: Source,
    split: str | None,
    task: TaskConfig,
    settings: DataConfig,
    report: Report,
) -> bool:
    """Checks the columns of a split's first row; see `splits.has_labels`."""
    name = source.describe(split)
    rows = [
        row
        for _, row in itertools.islice(source.read(split, settings, task), _FIRST_ROWS)
    ]
    first = next((row for row in rows if not isinstance(row, RowError)), None)
    if rows and first is None:
        return True  # all rows are bad, which is reported later
    if splits.has_labels(name, split or splits.TRAIN, first, task):
        return True
    reason = "only -1 for" if first and task.label_column in first else "no column"
    report(f"{os.path.basename(name)} has {reason} {task.label_column}: left out")
    return False
