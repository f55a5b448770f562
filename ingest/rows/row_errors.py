"""Rows of files, their locations and their errors."""

from __future__ import annotations

import gzip
import zlib
from typing import Any, NamedTuple

from contracts.errors import UsageError

# Raised for a file that is truncated, or not of the format of its name.
DAMAGE = (ValueError, EOFError, zlib.error, gzip.BadGzipFile)


class RowError(ValueError):
    """The reason why a row cannot be read, trained on, predicted or written."""


class FileError(RowError):
    """The reason why a file, or the rest of it, cannot be read; it is never skipped."""


class EncodingError(RowError):
    """A row has a byte that its encoding cannot decode."""


class VanishedFileError(UsageError):
    """A file was deleted after it was listed."""


class Location(NamedTuple):
    """Where a row is.

    Attributes:
      file: The path of its file.
      row: Its number, from 1. In a text file, it is the first line of the row, counted
        with the header. Otherwise, it is the row of the table or the record of the
        file.
    """

    file: str
    row: int

    def __str__(self) -> str:
        return f"{self.file}:{self.row}"


# Values by column, a serialized `tf.Example`, or why there is neither.
Row = dict[str, Any] | bytes | RowError
