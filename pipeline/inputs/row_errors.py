"""Rows of files, and what is wrong with them."""

from __future__ import annotations

import dataclasses


class RowError(ValueError):
    """The reason why a row cannot be read, predicted or written."""


@dataclasses.dataclass(frozen=True)
class Location:
    """Where a row is.

    Attributes:
      file: The path of its file.
      row: Its number, from 1: a line of a text file, header included, a row of a
        Parquet table, or a record of a TFRecord file.
    """

    file: str
    row: int

    def __str__(self) -> str:
        return f"{self.file}:{self.row}"
