"""Reads the labels of files as names or indices of classes, as flags, or as scores."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from contracts import row_values
from contracts.settings.data import DataConfig
from contracts.task.definition import TaskConfig
from contracts.task.label_cells import CellError, canonical_label, to_text
from contracts.task.label_kind import Label
from ingest.rows.row_errors import RowError


class NotAnIndexError(Exception):
    """A label is not an index, but others before it were read as indices.

    The caller reads the source again with `task.labels` as `name`.
    """


class LabelParser:
    """Reads the labels of a source.

    Args:
      task: The classes or the range of the score, and whether labels are names or
        indices. If `task.labels` is None, the labels decide.
      settings: If they name a curated schema, other numbers are labels, too. If bad
        rows are refused, a label that is neither a name nor an index decides nothing:
        no row is used.
    """

    def __init__(self, task: TaskConfig, settings: DataConfig) -> None:
        self._task = task
        self._kind = task.label_kind
        has_schema = settings.schema_file is not None
        self._allows_all_values = has_schema and not self._kind.has_flags
        self._skips = settings.on_bad_rows == "skip"
        names = enumerate(task.classes or ())
        self._names = {canonical_label(name): index for index, name in names}
        self._indices = {str(index): index for index in range(len(self._names))}
        self._reading = task.labels
        self._has_indices = False

    def parse_row(
        self,
        row: Mapping[str, Any],
        find_names: Callable[[Any], Mapping[str, str]] = lambda value: {},
    ) -> Label:
        """Returns the label of a row.

        Args:
          row: Values by column.
          find_names: Returns the `class_of_value` of `parse` for a value.

        Raises:
          RowError: A column is missing, or its value is not a label.
          NotAnIndexError: See there.
        """
        task = self._task
        if task.has_label_columns:
            return [_parse_flag(row, name) for name in task.label_columns]
        value = read_column(row, task.label_column)

        def parse(name: Any) -> float:
            return self.parse(name, find_names(name))

        try:
            return self._kind.parse_cell(value, task.separator, parse, task.labels)
        except CellError as error:
            raise RowError(f"{task.label_column} {error}") from error

    def parse(self, value: Any, class_of_value: Mapping[str, str]) -> float:
        """Returns the index of a class, or a score.

        Args:
          value: A value of the label column.
          class_of_value: The class by canonical label, if the source names its classes.

        Raises:
          RowError: The value is not a label.
          NotAnIndexError: See there.
        """
        text = label = to_text(value)
        number: float | None
        if not self._names:
            number = row_values.parse_score(value)
        elif (label := canonical_label(text)) in class_of_value:
            return self._names[canonical_label(class_of_value[label])]
        else:
            number = self._parse_class(label)
        if number is not None and (
            self._names or self._allows_all_values or self._kind.allows(number)
        ):
            return number
        verb = "has" if self._kind.has_flags else "is"
        column = f"{self._task.label_column} {verb}"
        if row_values.is_missing(value):
            raise RowError(f"{column} {text!r}, which stands for a missing value")
        raise RowError(
            f"{column} {text!r}; allowed are {self._describe()}" + self._explain(label)
        )

    def _parse_class(self, label: str) -> int | None:
        if self._reading != "index" and label in self._names:
            if label not in self._indices:
                self._read_names(label)
            return self._names[label]
        if self._reading != "name" and label in self._indices:
            self._has_indices = self._has_indices or self._reading is None
            return self._indices[label]
        if self._skips and not row_values.is_missing(label):
            self._read_names(label)
        if self._allows_all_values and self._reading != "name":
            return row_values.parse_id(label)
        return None

    def _read_names(self, label: str) -> None:
        if self._reading is None:
            if self._has_indices:
                raise NotAnIndexError(label)
            self._reading = "name"

    def _describe(self) -> str:
        kind = self._kind
        low, high = (0, len(kind.names) - 1) if kind.names else (kind.low, kind.high)
        if not kind.names or self._reading == "index":
            return f"numbers from {low} to {high}"
        names = ", ".join(kind.names)
        is_open = self._reading is None and self._task.labels is None
        return f"{low} to {high} or {names}" if is_open else names

    def _explain(self, label: str) -> str:
        setting = self._task.label_column
        if self._reading == "name" and label in self._indices:
            return f" (if each {setting} is the index of a class: `task.labels=index`)"
        if self._reading == "index" and label in self._names:
            return f" (if each {setting} is the name of a class: `task.labels=name`)"
        return ""


def read_column(row: Mapping[str, Any], column: str) -> Any:
    """Returns the value of a column.

    Raises:
      RowError: The row has no such column, or no value in it.
    """
    if column not in row:
        raise RowError(
            f"no column {column}; the row has {', '.join(row) or 'no columns'}"
        )
    if row[column] is None:
        raise RowError(f"{column} has no value")
    return row[column]


def _parse_flag(row: Mapping[str, Any], column: str) -> int:
    """Returns 1 if a row has a label, or 0."""
    text = to_text(read_column(row, column))
    flag = row_values.FLAGS.get(canonical_label(text))
    if flag is None:
        raise RowError(f"{column} is {text!r}; allowed are 0 and 1")
    return flag
