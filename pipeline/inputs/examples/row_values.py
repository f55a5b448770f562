"""The values of a row that training takes, or why it cannot take the row."""

from __future__ import annotations

import contextlib
import math
from collections.abc import Mapping
from typing import Any

from modules.config.task import TaskConfig
from modules.data.row_facts import is_empty
from pipeline.config.sections import DataConfig
from pipeline.inputs.rows.row_errors import RowError

_FLOAT32_MAX = 3.4e38


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

    def parse(self, row: Mapping[str, Any], number: int) -> dict[str, Any]:
        """Returns a row's features.

        Args:
          row: Values by column.
          number: The id of a row without one.

        Returns:
          The texts as str, the label as int or float, the id as int, the weight, if
          the task and the row have one, as float.

        Raises:
          RowError: A value is missing, or not allowed.
        """
        features: dict[str, Any] = {
            **{column: self._text(row, column) for column in self._task.text_columns},
            self._task.label_column: self.label(row),
            self._task.id_column: self._id(row, number),
        }
        weight_column = self._task.weight_column
        if weight_column is not None and weight_column in row:
            features[weight_column] = self._weight(row, weight_column)
        return features

    def label(self, row: Mapping[str, Any]) -> int | float:
        """Returns the index of a row's class, or its score; see `parse`."""
        value = _value(row, self._task.label_column)
        if self._task.classes is None:
            return self._score(value)
        return self._class(value, self._task.classes)

    def _text(self, row: Mapping[str, Any], column: str) -> str:
        text = _value(row, column)
        if not isinstance(text, str):
            raise RowError(f"{column} is {str(text)[:80]!r}, not text")
        if not self._allows_all_values and is_empty(text):
            raise RowError(f"{column} is {text[:80]!r}, which has no visible character")
        return text

    def _class(self, value: Any, classes: list[str]) -> int:
        text = to_text(value)
        name = self._class_of_value.get(text, text)
        if name in classes:
            return classes.index(name)
        with contextlib.suppress(ValueError):
            label = _parse_int64(text.removesuffix(".0"))  # as pandas may write 1
            if 0 <= label < len(classes) or self._allows_all_values:
                return label
        raise RowError(
            f"{self._task.label_column} is {text!r}; allowed are 0 to "
            f"{len(classes) - 1} and {', '.join(classes)}"
        )

    def _score(self, value: Any) -> float:
        text = to_text(value)
        score = _parse_float(text)
        low, high = self._task.label_range or (-math.inf, math.inf)
        is_allowed = low <= score <= high or self._allows_all_values
        if not math.isfinite(score) or not is_allowed:
            raise RowError(
                f"{self._task.label_column} is {text!r}; allowed are numbers from "
                f"{low} to {high}"
            )
        return score

    def _weight(self, row: Mapping[str, Any], column: str) -> float:
        text = to_text(_value(row, column))
        weight = _parse_float(text)
        if not 0 <= weight <= _FLOAT32_MAX:
            raise RowError(f"{column} is {text!r}; allowed are numbers from 0")
        return weight

    def _id(self, row: Mapping[str, Any], number: int) -> int:
        column = self._task.id_column
        if column not in row:
            return number
        text = to_text(row[column])
        try:
            return _parse_int64(text)
        except ValueError:
            raise RowError(
                f"{column} is {text!r}, not a whole number; name another column with "
                "task.id_column, or a new one to number the rows"
            ) from None


def _value(row: Mapping[str, Any], column: str) -> Any:
    if column not in row:
        raise RowError(f"no column {column}; the row has {', '.join(row) or 'none'}")
    if row[column] is None:
        raise RowError(f"{column} has no value")
    return row[column]


def to_text(value: Any) -> str:
    """Returns a label as CSV has it: true for a boolean, 1 for the float 1.0."""
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, float) and value.is_integer():
        return str(int(value))
    return str(value)


def _parse_float(text: str) -> float:
    try:
        return float(text)
    except ValueError:
        return math.nan


def _parse_int64(text: str) -> int:
    number = int(text)
    if not -(1 << 63) < number < 1 << 63:  # a tf.Example cannot hold it
        raise ValueError(f"{text} has more than 64 bits")
    return number
