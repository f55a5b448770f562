"""The spellings of a label in files."""

from __future__ import annotations

import functools
import re
from typing import Any

from contracts.task.label_cells import PREFIX

_WHOLE_NUMBER = re.compile(r"([+-]?[0-9]{1,300})(\.0*)?")


@functools.lru_cache(maxsize=4096)  # rows repeat few labels
def canonical_label(text: str) -> str:
    """Returns the one spelling of a class: `1` for `1.0`, `01` and ` 1`.

    Programs write one value in several ways: pandas writes whole numbers as floats if
    one of them is missing, spreadsheets write `TRUE`, and fastText `__label__ham`.
    """
    text = text.strip().removeprefix(PREFIX)
    if text.lower() in ("true", "false"):
        return text.lower()
    match = _WHOLE_NUMBER.fullmatch(text)
    return str(int(match[1])) if match else text


def to_text(value: Any) -> str:
    """Returns a label as text in CSV: `true` for True, `1` for the float 1.0."""
    if isinstance(value, str):
        return value
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, float) and value.is_integer():
        return str(int(value))
    return str(value)
