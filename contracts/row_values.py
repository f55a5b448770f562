"""The rules for the values of a row: texts, a label, an id, a weight.

Ingestion applies them to the values of files, DataGate to those of Examples, `init` to
the columns of a data set, and `predict` to its texts.
"""

from __future__ import annotations

import math
import unicodedata
from typing import Any

from contracts.task.definition import LARGEST_SCORE, TaskConfig
from contracts.task.label_cells import canonical_label, to_text

# What R, pandas, databases and spreadsheets write for a missing value, in any case.
_MISSING = {
    *("", "-", "na", "<na>", "n/a", "#n/a", "#na", "nan", "nat", "null", "none", "\\n"),
}
# How files write that a row has a label, or not, by canonical label.
FLAGS = {"0": 0, "1": 1, "false": 0, "true": 1}
_MOST_CHARACTERS = 20  # a mark with blanks around it; texts are long


def is_missing(value: Any) -> bool:
    """Returns whether a value, if it is no class, stands for a missing one."""
    if value is None:
        return True
    text = to_text(value)
    if len(text) >= _MOST_CHARACTERS:
        return text.isspace()
    return text.strip().lower() in _MISSING


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


def find_text_problem(
    value: Any, *, allows_empty: bool = False, allows_marks: bool = False
) -> str | None:
    """Returns why a value is not text, to follow its column in a message, or None.

    Args:
      value: A value of a text column.
      allows_empty: Whether a text may have no visible character.
      allows_marks: Whether a text may be what programs write for a missing value.
    """
    if not isinstance(value, str):
        return f"is {str(value)[:80]!r}, not text"
    if problem := find_surrogate(value):
        return problem
    if is_empty(value):
        if not allows_empty:
            return f"is {value[:80]!r}, which has no visible character"
    elif not allows_marks and is_missing(value):
        return f"is {value!r}, which stands for a missing value"
    return None


def find_surrogate(text: str) -> str | None:
    """Returns the first lone surrogate of a text, to follow its name, or None.

    JSON can escape half of a character, such as of an emoji that was cut. No file,
    Example or request can hold it.
    """
    try:
        text.encode()
    except UnicodeEncodeError as error:
        return (
            f"has a lone surrogate, {text[error.start]!a}, at character "
            f"{error.start + 1}: half of a character, often of an emoji that was cut; "
            "correct or delete it"
        )
    return None


def parse_score(value: Any) -> float | None:
    """Returns a value as a score; None if it is not a finite number."""
    score = _parse_float(to_text(value))
    return score if math.isfinite(score) else None


def is_unlabelled(value: Any, task: TaskConfig) -> bool:
    """Returns whether a value in the label column of a split may mean "no label".

    TFDS has -1 for the secret labels of GLUE.
    """
    if value is None:
        return True
    label = canonical_label(to_text(value))
    if task.label_kind.is_value(label):
        return False
    return label == "-1" or is_missing(value)


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
    return weight if 0 <= weight <= LARGEST_SCORE else None


def _parse_float(text: str) -> float:
    try:
        return float(text)
    except ValueError:
        return math.nan
