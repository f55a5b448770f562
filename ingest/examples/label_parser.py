"""Reads the labels of files as names or indices of classes, or as scores."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from ingest.config import DataConfig
from ingest.rows.row_errors import RowError
from modules.config.task import TaskConfig, canonical_label
from modules.data import row_values


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
        self._allows_all_values = settings.schema_file is not None
        self._skips = settings.on_bad_rows == "skip"
        names = enumerate(task.classes or ())
        self._names = {canonical_label(name): index for index, name in names}
        self._indices = {str(index): index for index in range(len(self._names))}
        self._reading = task.labels
        self._has_indices = False

    def parse(self, value: Any, class_of_value: Mapping[str, str]) -> float:
        """Returns the index of a class, or a score.

        Args:
          value: A value of the label column.
          class_of_value: The class by canonical label, if the source names its classes.

        Raises:
          RowError: The value is not a label.
          NotAnIndexError: See there.
        """
        text = label = row_values.to_text(value)
        number: float | None
        if self._task.classes is None:
            number = row_values.parse_score(value)
        elif (label := canonical_label(text)) in class_of_value:
            return self._names[canonical_label(class_of_value[label])]
        else:
            number = self._parse_class(label)
        if number is not None and (
            self._allows_all_values or row_values.is_label(number, self._task)
        ):
            return number
        column = self._task.label_column
        if row_values.is_missing(value):
            raise RowError(f"{column} is {text!r}, which stands for a missing value")
        raise RowError(
            f"{column} is {text!r}; allowed are {self._describe()}"
            + self._explain(label)
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
        low, high = row_values.label_bounds(self._task)
        if self._task.classes is None or self._reading == "index":
            return f"numbers from {low} to {high}"
        names = ", ".join(self._task.classes)
        is_open = self._reading is None and self._task.labels is None
        return f"{low} to {high} or {names}" if is_open else names

    def _explain(self, label: str) -> str:
        setting = self._task.label_column
        if self._reading == "name" and label in self._indices:
            return f" (if each {setting} is the index of a class: task.labels=index)"
        if self._reading == "index" and label in self._names:
            return f" (if each {setting} is the name of a class: task.labels=name)"
        return ""
