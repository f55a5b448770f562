"""What the splits of a data set are called, here and elsewhere."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Iterator

from modules.config.task import TaskConfig
from pipeline.config.errors import UsageError

SPLITS = ("train", "eval", "eval_mismatched", "test", "test_mismatched")
REQUIRED_SPLITS = ("train", "eval")
# What others call them. Of MNLI's pairs, the mismatched are of other genres than
# those that it trains on.
SPLIT_NAMES = {split: split for split in SPLITS} | {
    "validation": "eval",
    "dev": "eval",
    "validation_matched": "eval",
    "dev_matched": "eval",
    "validation_mismatched": "eval_mismatched",
    "dev_mismatched": "eval_mismatched",
    "test_matched": "test",
}

Row = dict[str, str]
# Rows, each with where it stands in its source, for a person to find it.
Rows = Iterator[tuple[str, Row]]
Report = Callable[[str], None]


class MissingSplitError(UsageError):
    """A source lacks a split that every run needs."""


def require_splits(source: str, found: Iterable[str], pattern: str) -> None:
    """Refuses a source without the splits that every run needs.

    Args:
      source: Where they were looked for.
      found: The splits that are there.
      pattern: What their files are called.

    Raises:
      MissingSplitError: One is missing.
    """
    missing = [split for split in REQUIRED_SPLITS if split not in set(found)]
    if missing:
        names = sorted(os.listdir(source)) if os.path.isdir(source) else []
        raise MissingSplitError(
            f"data {source} has no split {', '.join(missing)} ({pattern}); "
            f"it holds {', '.join(names[:8]) or 'nothing'}"
        )


def has_labels(where: str, split: str, row: Row, task: TaskConfig) -> bool:
    """Checks a split's columns, and tells whether it is labelled.

    Args:
      where: The file or the data set, for a person.
      split: Our name of the split.
      row: Its first row; empty if it has none.
      task: Names the columns.

    Returns:
      False for a split that may do without labels and does.

    Raises:
      UsageError: A column that the split must have is missing.
    """
    wanted = {"task.text_columns": task.text_columns}
    if split in REQUIRED_SPLITS:
        wanted["task.label_column"] = [task.label_column]
    for setting, names in wanted.items():
        missing = [name for name in names if name not in row]
        if missing:
            raise UsageError(
                f"{where} has no column {', '.join(missing)}; it has "
                f"{', '.join(row) or 'no rows'} ({setting} names them)"
            )
    if split in REQUIRED_SPLITS:
        return True
    return task.label_column in row and not _is_secret(row[task.label_column], task)


def _is_secret(label: str, task: TaskConfig) -> bool:
    """Tells whether a label is the -1 that TFDS has where GLUE keeps it secret."""
    if label not in ("-1", "-1.0") or label in (task.classes or ()):
        return False
    return task.label_range is None or task.label_range[0] > -1
