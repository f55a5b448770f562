"""The rules for the values of a row: texts, a label, an id, a weight.

Ingestion applies them to the values of files, DataGate to those of Examples, `init` to
the columns of a data set, and `predict` to its texts.
"""

from __future__ import annotations

import math
import unicodedata
from collections.abc import Mapping
from types import MappingProxyType
from typing import Any

import numpy as np

from modules.config.task import TaskConfig


def is_empty(text: str) -> bool:
    """Returns whether BERT's tokenizer drops all characters of a text.

    It drops white space, control and format characters such as the zero width space,
    and the replacement character of bytes that are not UTF-8.
    """
    return not text[:1].isalnum() and all(
        character == "\ufffd"
        # White space, control and format characters.
        or unicodedata.category(character) in {"Zs", "Zl", "Zp", "Cc", "Cf"}
        for character in text
    )


def find_text_problem(value: Any, *, allows_empty: bool) -> str | None:
    """Returns why a value is not text, to follow its column in a message, or None.

    Args:
      value: A value of a text column.
      allows_empty: Whether a text may have no visible character.
    """
    if not isinstance(value, str):
        return f"is {str(value)[:80]!r}, not text"
    if not allows_empty and is_empty(value):
        return f"is {value[:80]!r}, which has no visible character"
    return None


def label_bounds(task: TaskConfig) -> tuple[float, float]:
    """Returns the lowest and the highest label: indices of classes, or scores."""
    low, high = task.label_range or (0, task.outputs - 1)
    return low, high


def is_label(number: float, task: TaskConfig) -> bool:
    """Returns whether a number is the index of a class, or a score in the range.

    Scores are compared as Examples hold them, in float32.
    """
    low, high = label_bounds(task)
    if low <= number <= high:  # NaN is not
        return True
    if task.classes is not None:
        return False
    with np.errstate(over="ignore"):
        low, high, number = np.array([low, high, number], np.float32).tolist()
    return low <= number <= high


def describe_labels(task: TaskConfig) -> str:
    """Returns the allowed labels, for a message."""
    low, high = label_bounds(task)
    if task.classes is None:
        return f"numbers from {low} to {high}"
    return f"{low} to {high} and {', '.join(task.classes)}"


def parse_label(
    value: Any,
    task: TaskConfig,
    class_of_value: Mapping[str, str] = MappingProxyType({}),
) -> float | None:
    """Returns the number of a label in a file, which `is_label` must still check.

    Args:
      value: The name of a class, or a number, as text or not.
      task: The classes; without them, the label is a score.
      class_of_value: The class by label of the source, for labels that are not classes.

    Returns:
      An int for a class, a float for a score; None if the value is neither a class nor
      a number that an Example can hold.
    """
    text = to_text(value)
    if task.classes is None:
        score = _parse_float(text)
        return score if math.isfinite(score) else None
    name = class_of_value.get(text, text)
    if name in task.classes:
        return task.classes.index(name)
    return parse_id(text)


def is_secret_label(value: Any, task: TaskConfig) -> bool:
    """Returns whether a label is -1, which TFDS has for the secret labels of GLUE."""
    if str(value) not in ("-1", "-1.0") or str(value) in (task.classes or ()):
        return False
    return task.label_range is None or task.label_range[0] > -1


def parse_id(value: Any) -> int | None:
    """Returns a value as an id; None if it is not an integer of 64 bits."""
    # pandas writes the whole numbers of a column with missing values as 1.0.
    text, _, decimals = to_text(value).partition(".")
    if decimals.strip("0"):
        return None
    try:
        number = int(text)
    except ValueError:
        return None
    return number if -(1 << 63) < number < 1 << 63 else None


def parse_weight(value: Any) -> float | None:
    """Returns a value as a weight; None if it is negative or not a float32 number."""
    weight = _parse_float(to_text(value))
    return weight if 0 <= weight <= 3.4e38 else None


def to_text(value: Any) -> str:
    """Returns a label as text in CSV: `true` for True, `1` for the float 1.0."""
    if isinstance(value, str):
        return value
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
