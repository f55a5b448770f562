"""Turns the rows of files into the features of Examples."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from modules.config.task import TaskConfig
from modules.data import row_values
from pipeline.config.sections import DataConfig
from pipeline.inputs.rows.row_errors import RowError


class RowParser:
    """Turns rows of files into the features of Examples.

    Args:
      task: Names the columns, and the classes or the range of the score.
      settings: With a curated schema, it decides on empty texts and labels that the
        task does not have.
      class_of_value: The class by label of the source, if the source has other labels
        than the task; it is ignored if its classes are not the task's.
    """

    def __init__(
        self,
        task: TaskConfig,
        settings: DataConfig,
        class_of_value: Mapping[str, str] | None = None,
    ) -> None:
        self._task = task
        self._allows_all_values = settings.schema_file is not None
        self._class_of_value: Mapping[str, str] = {}
        if class_of_value and {*class_of_value.values()} == {*(task.classes or ())}:
            self._class_of_value = class_of_value

    def parse(self, row: Mapping[str, Any]) -> dict[str, Any]:
        """Returns a row's features.

        Args:
          row: Values by column.

        Returns:
          The texts as str, the label as int or float, the id as int, None if the row
          has none, and the weight, if the task and the row have one, as float.

        Raises:
          RowError: A value is missing, or not allowed.
        """
        task = self._task
        features: dict[str, Any] = {
            **{column: self._text(row, column) for column in task.text_columns},
            task.label_column: self._label(row),
            task.id_column: self._id(row) if task.id_column in row else None,
        }
        if task.weight_column is not None and task.weight_column in row:
            features[task.weight_column] = self._weight(row, task.weight_column)
        return features

    def _text(self, row: Mapping[str, Any], column: str) -> str:
        text = _value(row, column)
        problem = row_values.find_text_problem(
            text, allows_empty=self._allows_all_values
        )
        if problem:
            raise RowError(f"{column} {problem}")
        return text

    def _label(self, row: Mapping[str, Any]) -> float:
        value = _value(row, self._task.label_column)
        label = row_values.parse_label(value, self._task, self._class_of_value)
        is_allowed = label is not None and (
            self._allows_all_values or row_values.is_label(label, self._task)
        )
        if label is None or not is_allowed:
            raise RowError(
                f"{self._task.label_column} is {row_values.to_text(value)!r}; allowed "
                f"are {row_values.describe_labels(self._task)}"
            )
        return label

    def _weight(self, row: Mapping[str, Any], column: str) -> float:
        value = _value(row, column)
        weight = row_values.parse_weight(value)
        if weight is None:
            raise RowError(
                f"{column} is {row_values.to_text(value)!r}; allowed are numbers from 0"
            )
        return weight

    def _id(self, row: Mapping[str, Any]) -> int:
        column = self._task.id_column
        number = row_values.parse_id(row[column])
        if number is None:
            raise RowError(
                f"{column} is {row_values.to_text(row[column])!r}, not a whole number; "
                "name another column with task.id_column, or a new one to number the "
                "rows"
            )
        return number


def _value(row: Mapping[str, Any], column: str) -> Any:
    if column not in row:
        raise RowError(f"no column {column}; the row has {', '.join(row) or 'none'}")
    if row[column] is None:
        raise RowError(f"{column} has no value")
    return row[column]
