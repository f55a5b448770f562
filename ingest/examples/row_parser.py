"""Turns the rows of files into the features of Examples."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from contracts import row_values
from contracts.errors import UsageError
from contracts.settings.data import DataConfig, check_slice_columns
from contracts.task.definition import TaskConfig
from contracts.task.label_cells import canonical_label, to_text
from ingest.examples.label_parser import Label, LabelParser, read_column
from ingest.examples.splits import by_index
from ingest.rows.row_errors import RowError


class RowParser:
    """Turns rows of files into the features of Examples.

    Args:
      task: Names the columns.
      settings: `group_column` and `slice_columns`. If they name a curated schema, the
        schema decides whether empty texts are allowed.
      labels: Reads the labels of all splits.
      class_of_value: The class by label, if the source names its classes. It is
        ignored if its classes are not the task's.
      has_examples: Whether the rows are Examples, whose integers are indices of
        classes, or 0 or 1 for each of several labels.
    """

    def __init__(
        self,
        task: TaskConfig,
        settings: DataConfig,
        labels: LabelParser,
        class_of_value: Mapping[str, str] | None = None,
        *,
        has_examples: bool = False,
    ) -> None:
        self._task = task
        self._labels = labels
        self._group_column = settings.group_column
        self._slice_columns = settings.slice_columns
        check_slice_columns(settings.slice_columns, task)
        self._allows_empty = settings.schema_file is not None
        # The rows of GLUE are complete; MNLI has the texts `n/a` and `none`.
        self._allows_marks = self._allows_empty or task.name is not None
        self._class_of_value: Mapping[str, str] = {}
        if class_of_value and {*class_of_value.values()} == {*(task.classes or ())}:
            self._class_of_value = class_of_value
        self._has_flags = has_examples and task.label_kind.has_flags
        self._class_of_integer = (
            by_index(task.classes) if has_examples else self._class_of_value
        )

    def parse(self, row: Mapping[str, Any]) -> dict[str, Any]:
        """Returns a row's features.

        Args:
          row: Values by column.

        Returns:
          The texts as str; the label as int or float, or 0 or 1 for each of several
          labels as list; the id as int, or None if the row has no id; the weight as
          float, if the task and the row have one; values of slice columns as str, if
          the row has them.

        Raises:
          RowError: A value is missing, or not allowed.
          NotAnIndexError: See `LabelParser`.
        """
        task = self._task
        features: dict[str, Any] = {}
        for column in task.text_columns:
            text = read_column(row, column)
            problem = row_values.find_text_problem(
                text, allows_empty=self._allows_empty, allows_marks=self._allows_marks
            )
            if problem:
                raise RowError(f"{column} {problem}")
            features[column] = text
        features[task.label_column] = self._parse_label(row)
        features[task.id_column] = None
        if task.id_column in row:
            value = row[task.id_column]
            features[task.id_column] = row_values.parse_id(value)
            if features[task.id_column] is None:
                raise RowError(
                    f"{task.id_column} is {to_text(value)!r}, not a whole "
                    "number; name another column with `task.id_column`, or a new one "
                    "to number the rows"
                )
        if task.weight_column is not None and task.weight_column in row:
            value = read_column(row, task.weight_column)
            weight = row_values.parse_weight(value)
            if weight is None:
                raise RowError(
                    f"{task.weight_column} is {to_text(value)!r}; allowed "
                    "are numbers from 0"
                )
            features[task.weight_column] = weight
        for column in self._slice_columns:
            if not row_values.is_missing(row.get(column)):
                features[column] = _as_name(row[column])
        return features

    def _parse_label(self, row: Mapping[str, Any]) -> Label:
        column = self._task.label_column
        values = row.get(column)
        if not self._has_flags or not isinstance(values, list):
            return self._labels.parse_row(row, self._find_names)
        label = self._task.label_kind.read(values)
        if not isinstance(label, list):
            raise RowError(
                f"{column} is {str(values)[:80]}; allowed are 0 and 1, one of them for "
                f"each of the {self._task.outputs} task.classes"
            )
        return label

    def _find_names(self, label: Any) -> Mapping[str, str]:
        """Returns the classes by value of a label."""
        is_integer = isinstance(label, int)
        return self._class_of_integer if is_integer else self._class_of_value

    def find_group(self, row: Mapping[str, Any]) -> str | None:
        """Returns the group of a row; None if it is a separate group.

        Raises:
          UsageError: The rows have no such column.
        """
        column = self._group_column
        if column is None:
            return None
        if column not in row:
            raise UsageError(
                "data.group_column",
                f"the rows have no column {column}",
                ", ".join(row),
                name="E-column-missing",
            )
        value = row[column]
        if row_values.is_missing(value):
            return None
        return _as_name(value)


def _as_name(value: Any) -> str:
    """Returns the one spelling of a value of a group or slice column."""
    return canonical_label(to_text(value))
