"""The format number in the JSON files that this project reads back.

A file without a number has the first format.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

from contracts.errors import UsageError

FORMAT = 1
_KEY = "format"


class FormatError(UsageError, ValueError):
    """A file has a format that this release cannot read.

    A command reports it; code that skips unreadable files treats it as bad JSON.
    """


def with_format(content: Mapping[str, Any], number: int = FORMAT) -> dict[str, Any]:
    """Returns the content of a file, with the format number first."""
    return {_KEY: number, **content}


def parse(text: str | bytes, path: object, expected: int = FORMAT) -> Any:
    """Returns the content of a JSON file, without the format number.

    Args:
      text: The file's text. Only an object has a format number.
      path: Names the file in the error.
      expected: The format number that this release reads.

    Raises:
      FormatError: This release cannot read the format.
      ValueError: The text is not JSON.
    """
    try:
        content = json.loads(text)
    except RecursionError as error:
        raise ValueError("its brackets are nested too deeply") from error
    number = content.pop(_KEY, FORMAT) if isinstance(content, dict) else expected
    if number != expected:
        raise FormatError(
            str(path),
            f"its format is {number!r}",
            f"{expected}, which this release reads",
            "use the release that wrote the file, or another output directory",
            name="E-file-format-other",
        )
    return content
