"""What travels through the Beam pipeline."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from typing import Any


class RowError(Exception):
    """A row that cannot be predicted, or not be written; its text says why."""


@dataclasses.dataclass(frozen=True)
class Place:
    """Where a row stands, for a person to find it.

    Attributes:
      file: Its file.
      offset: Byte that it begins at, after unpacking; of Parquet that its row group
        begins at.
      row: Its index in that row group; None of other formats.
    """

    file: str
    offset: int
    row: int | None = None

    def __str__(self) -> str:
        within = "" if self.row is None else f", row {self.row} of the row group there"
        return f"{self.file}, byte {self.offset}{within}"


@dataclasses.dataclass(frozen=True)
class Refusal:
    """A row that gets no prediction.

    Attributes:
      place: Where it stands.
      reason: Why it gets none.
    """

    place: Place
    reason: str

    def as_dict(self) -> dict[str, Any]:
        """Returns what the file of refused rows says."""
        place = dataclasses.asdict(self.place)
        known = {name: value for name, value in place.items() if value is not None}
        return {**known, "reason": self.reason}


def texts_of(row: Mapping[str, Any], columns: tuple[str, ...]) -> tuple[str, ...]:
    """Returns what the model is asked of a row.

    Args:
      row: Values by column.
      columns: The model's text columns.

    Raises:
      RowError: A column is missing, or is no text.
    """
    for column in columns:
        if column not in row:
            raise RowError(
                f"no column {column}; the model wants text in {' and '.join(columns)}, "
                f"the row has {', '.join(row) or 'no columns'}"
            )
        check_text(column, row[column])
    return tuple(row[column] for column in columns)


def check_text(column: str, value: Any) -> None:
    """Refuses what is no text.

    Raises:
      RowError: It is not a string, or one that UTF-8 has no bytes for.
    """
    if not isinstance(value, str):
        raise RowError(f"column {column} is {str(value)[:80]!r}, not text")
    try:
        value.encode()
    except UnicodeEncodeError as error:
        raise RowError(f"column {column} is not Unicode text: {error}") from error
