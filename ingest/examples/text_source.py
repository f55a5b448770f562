"""The rows of the files on this machine, by split."""

from __future__ import annotations

import itertools
import os
from collections.abc import Callable, Iterator, Mapping

from ingest.config import DataConfig
from ingest.examples import groups, splits, splitting
from ingest.examples.bad_rows import BadRows
from ingest.examples.row_parser import RowParser
from ingest.examples.sources import Source
from ingest.examples.splits import GoodRow, LocatedRow, Report, Row, by_index
from ingest.rows import hugging_face_datasets
from ingest.rows.row_errors import RowError
from modules.config.task import TRAIN_SPLIT, TaskConfig
from modules.errors import UsageError

# A split whose first rows are all malformed has no columns to check.
_FIRST_ROWS = 1000


def open_splits(
    source: Source,
    task: TaskConfig,
    settings: DataConfig,
    report: Report,
    bad_rows: BadRows,
    class_of_value: Mapping[str, str] | None = None,
    watch: Callable[[Row | RowError], None] | None = None,
) -> dict[str, Iterator[GoodRow] | None]:
    """Returns the rows of each split of a source.

    Args:
      source: The files. Without splits, their rows are split.
      task: Names the columns.
      settings: How the rows are split, and which rows are bad.
      report: Called with a line for the user.
      bad_rows: Collects the bad rows.
      class_of_value: The class of each label; None reads the names of classes from the
        files of each split.
      watch: Called with each row of `train`, or of a source without splits.

    Returns:
      The splits; None for one without labels.

    Raises:
      UsageError: A column is missing, or a split that a run needs has no rows. While
        the rows are read: a group is in two splits.
    """
    opened: dict[str, Iterator[GoodRow] | None] = {}
    for split in source.files:
        names = class_of_value
        if names is None:
            names = find_class_names(source, split, task.label_column)
            splits.refuse_other_classes(source.describe(split), names, task)
        rows = source.read(split, task)
        if watch and split in (None, TRAIN_SPLIT):
            rows = splits.watch(rows, watch)
        first = _take_first(rows)
        rows = itertools.chain(first, rows)
        parser = RowParser(task, settings, names)
        if split is None:
            _has_labels(source, split, first, task, report)
            opened |= splitting.split_rows(rows, parser, bad_rows, task, settings)
        elif _has_labels(source, split, first, task, report):
            opened[split] = bad_rows.filter(split, rows, parser)
        else:
            opened[split] = None
    return {
        name: rows and splits.number_rows(rows, task.id_column)
        for name, rows in groups.refuse_shared(opened, settings).items()
    }


def find_class_names(source: Source, split: str | None, column: str) -> dict[str, str]:
    """Returns the names of classes by index that the files of a split have.

    Raises:
      UsageError: Two files have different names.
    """
    files = source.files[split]
    first, *others = (
        hugging_face_datasets.class_names(file.path, file.file_format, column)
        for file in files
    )
    for file, names in zip(files[1:], others, strict=True):
        if names != first:
            raise UsageError(
                f"{files[0].path} has the classes {first} for {column}, and "
                f"{file.path} {names}; save them again with the same names"
            )
    return by_index(first)


def _take_first(rows: Iterator[LocatedRow]) -> list[LocatedRow]:
    """Takes the rows up to the first one that can be read."""
    first = []
    for located in itertools.islice(rows, _FIRST_ROWS):
        first.append(located)
        if not isinstance(located[1], RowError):
            break
    return first


def _has_labels(
    source: Source,
    split: str | None,
    first: list[LocatedRow],
    task: TaskConfig,
    report: Report,
) -> bool:
    """Checks the columns of a split's first row; see `splits.has_labels`."""
    name = source.describe(split)
    row = next((row for _, row in first if not isinstance(row, RowError)), None)
    if first and row is None:
        return True  # all rows are bad, which is reported later
    if splits.has_labels(name, split or TRAIN_SPLIT, row, task):
        return True
    reason = "only -1 for" if row and task.label_column in row else "no column"
    report(f"{os.path.basename(name)} has {reason} {task.label_column}: left out")
    return False
