"""The names and the required columns of a data set's splits."""

from __future__ import annotations

import itertools
import os
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any, NamedTuple

from contracts import row_values
from contracts.errors import UsageError
from contracts.settings.data import REQUIRED_SPLITS, SPLITS, TEST
from contracts.task.definition import (
    EVAL_SPLIT,
    TRAIN_SPLIT,
    TaskConfig,
)
from contracts.task.label_cells import canonical_label, to_text
from ingest.rows.row_errors import Location, RowError
from ingest.rows.spool import Spool

# Splits by the names that other libraries give them. MNLI's mismatched pairs and its
# training split have different genres.
SPLIT_NAMES = {split: split for split in SPLITS} | {
    "validation": EVAL_SPLIT,
    "valid": EVAL_SPLIT,
    "val": EVAL_SPLIT,
    "dev": EVAL_SPLIT,
    "validation_matched": EVAL_SPLIT,
    "dev_matched": EVAL_SPLIT,
    "validation_mismatched": "eval_mismatched",
    "dev_mismatched": "eval_mismatched",
    "test_matched": TEST,
}

# A split whose first rows are all malformed has no columns to check.
_FIRST_ROWS = 1000

Row = dict[str, Any]
LocatedRow = tuple[Location, Row | RowError]
Report = Callable[[str], None]


class GoodRow(NamedTuple):
    """A row that a model can be trained on.

    Attributes:
      location: Where it is.
      features: The features of its Example by column: texts, label, id, weight, slices.
        The id is None until the rows of its split are numbered.
      text_hash: `row_facts.hash_texts` of its texts; None if it was not needed.
      group: Its value of `data.group_column`; None without one.
    """

    location: Location
    features: dict[str, Any]
    text_hash: int | None = None
    group: str | None = None


def number_rows(rows: Iterator[GoodRow], id_column: str) -> Iterator[GoodRow]:
    """Numbers the rows of a split that have no id, from 0."""
    for number, row in enumerate(rows):
        if row.features[id_column] is None:
            row.features[id_column] = number
        yield row


def watch(
    rows: Iterator[LocatedRow], watcher: Callable[[Row | RowError], None]
) -> Iterator[LocatedRow]:
    """Calls a function with each row, and yields them."""
    for location, row in rows:
        watcher(row)
        yield location, row


def by_index(class_names: Iterable[str] | None) -> dict[str, str]:
    """Returns names of classes by their indices, as canonical labels."""
    return {str(index): name for index, name in enumerate(class_names or ())}


def refuse_other_classes(
    source: str, names: Mapping[str, str], task: TaskConfig
) -> None:
    """Refuses indices of classes whose meaning is ambiguous.

    Args:
      source: The file or the data set, for messages.
      names: Its names of the classes by index; empty if it has no names.
      task: The classes.

    Raises:
      UsageError: Some of the names are the task's, and others are not; or the numbers
        of classes differ.
    """
    classes, known = set(task.classes or ()), set(names.values())
    is_renamed = known.isdisjoint(classes) and len(known) == len(classes)
    if known and classes and known != classes and not is_renamed:
        raise UsageError(
            "task.classes",
            f"{', '.join(task.classes or ())}, but {source} has the classes "
            f"{', '.join(names.values())} for {task.label_column}",
            advice="set the same names, in any order",
            name="E-classes-differ",
        )


class MissingSplitError(UsageError):
    """A source lacks a split that every run needs."""


def duplicate_error(location: str, names: Iterable[str], role: str) -> UsageError:
    """Returns the error about files or directories of which only one may exist.

    Args:
      location: The directory.
      names: Their names.
      role: What each of them is, such as `the split train`.
    """
    return UsageError(
        location,
        f"it has {' and '.join(names)}, which are both {role}",
        advice="keep one of them",
        name="E-split-unclear",
    )


def require_splits(
    source: str, names: Iterable[str], pattern: str, entries: Iterable[str] = ()
) -> None:
    """Refuses a source without the splits that every run needs.

    Args:
      source: The source.
      names: The splits that it has.
      pattern: The form of their names, for the message.
      entries: Names in the source, if it is not a directory on this machine.

    Raises:
      MissingSplitError: A split is missing.
    """
    present = set(names)
    missing = [split for split in REQUIRED_SPLITS if split not in present]
    if missing:
        files = sorted(os.listdir(source)) if os.path.isdir(source) else [*entries]
        raise MissingSplitError(
            source,
            f"it has no split {', '.join(missing)} ({pattern}), but "
            f"{', '.join(files[:8]) or 'no files'}",
            advice="add the split",
            name="E-split-missing",
        )


def take_labelled(
    source: str,
    split: str,
    rows: Iterator[LocatedRow],
    task: TaskConfig,
    report: Report,
    *,
    are_records: bool = False,
) -> Iterator[LocatedRow] | None:
    """Checks the columns of a split, and whether it has labels.

    Args:
      source: The file or the data set, for messages.
      split: One of `SPLITS`.
      rows: Its rows.
      task: Names the columns.
      report: Called with a line for the user.
      are_records: Whether the rows are Examples, whose labels are one feature.

    Returns:
      The rows; None for a split without labels. A required split always has labels.

    Raises:
      UsageError: A required split has no rows, or a required column is missing.
    """
    first = []
    for located in itertools.islice(rows, _FIRST_ROWS):
        first.append(located)
        if not isinstance(located[1], RowError):
            break
    row = next((row for _, row in first if not isinstance(row, RowError)), None)
    rows = itertools.chain(first, rows)
    if first and row is None:
        return rows  # all rows are bad, which is reported later
    if row is None:
        if split in REQUIRED_SPLITS:
            raise UsageError(
                source,
                f"it has no rows, but the split {split} needs some",
                advice="add rows",
                name="E-split-missing",
            )
        report(f"{source} has no rows: left out")
        return None
    label_columns = [task.label_column] if are_records else task.label_columns
    _require_columns(source, split, row, task, label_columns)
    if split in REQUIRED_SPLITS:
        return rows
    unlabelled: Spool[LocatedRow] = Spool()
    values: dict[str, None] = {}
    has_column = False
    for located in rows:
        unlabelled.append(located)
        if isinstance(located[1], RowError):
            continue
        for column in label_columns:
            has_column = has_column or column in located[1]
            value = located[1].get(column)
            shown = "" if value is None else canonical_label(to_text(value))
            if shown not in values and not row_values.is_unlabelled(value, task):
                return itertools.chain(unlabelled, rows)
            values[shown] = None
    label = ", ".join(label_columns)
    reason = f"no column {label}"
    if has_column:
        seen = ", ".join(value or "(empty)" for value in sorted(values))
        reason = f"only {seen} for {label}"
    report(f"{source} has {reason}: left out")
    return None


def _require_columns(
    source: str, split: str, row: Row, task: TaskConfig, label_columns: list[str]
) -> None:
    required = {"task.text_columns": task.text_columns}
    if split in REQUIRED_SPLITS:
        is_one = label_columns == [task.label_column]
        setting = "task.label_column" if is_one else "task.classes"
        required[setting] = label_columns
    if split == TRAIN_SPLIT and task.weight_column is not None:
        required["task.weight_column"] = [task.weight_column]
    for setting, columns in required.items():
        missing = [column for column in columns if column not in row]
        if missing:
            raise UsageError(
                setting,
                f"{source} has no column {', '.join(missing)}",
                ", ".join(row),
                name="E-column-missing",
            )
