"""The names and the required columns of a data set's splits."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Iterator

from modules.config.task import TaskConfig
from pipeline.config.errors import UsageError

SPLITS = ("train", "eval", "eval_mismatched", "test", "test_mismatched")
REQUIRED_SPLITS = ("train", "eval")
# Names of other libraries. MNLI's mismatched pairs are of other genres than those of
# its training split.
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
# Rows with their locations in the source, for messages.
Rows = Iterator[tuple[str, Row]]
Report = Callable[[str], None]


class MissingSplitError(UsageError):
    """A source lacks a split that every run needs."""


def require_splits(source: str, names: Iterable[str], pattern: str) -> None:
    """Refuses a source without the splits that every run needs.

    Args:
      source: The source.
      names: The splits that it has.
      pattern: File pattern of the splits.

    Raises:
      MissingSplitError: A split is missing.
    """
    missing = [split for split in REQUIRED_SPLITS if split not in set(names)]
    if missing:
        files = sorted(os.listdir(source)) if os.path.isdir(source) else []
        raise MissingSplitError(
            f"data {source} has no split {', '.join(missing)} ({pattern}); "
            f"it holds {', '.join(files[:8]) or 'nothing'}"
        )


def has_labels(source: str, split: str, row: Row, task: TaskConfig) -> bool:
    """Checks the columns of a split.

    Args:
      source: The file or the data set, for messages.
      split: One of `SPLITS`.
      row: Its first row; empty if it has none.
      task: Names the columns.

    Returns:
      Whether the split has labels; a required split always has.

    Raises:
      UsageError: A required column is missing.
    """
    required = {"task.text_columns": task.text_columns}
    if split in REQUIRED_SPLITS:
        required["task.label_column"] = [task.label_column]
    if split == "train" and task.weight_column is not None:
        required["task.weight_column"] = [task.weight_column]
    for setting, columns in required.items():
        missing = [column for column in columns if column not in row]
        if missing:
            raise UsageError(
                f"{source} has no column {', '.join(missing)}; it has "
                f"{', '.join(row) or 'no rows'} ({setting} names them)"
            )
    if split in REQUIRED_SPLITS:
        return True
    return task.label_column in row and not _is_secret(row[task.label_column], task)


def _is_secret(label: str, task: TaskConfig) -> bool:
    """Returns whether a label is the -1 of TFDS for the secret labels of GLUE."""
    if label not in ("-1", "-1.0") or label in (task.classes or ()):
        return False
    return task.label_range is None or task.label_range[0] > -1
