"""Names rows in messages: by their id, and by the file and row that they came from."""

from __future__ import annotations

import dataclasses
from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from typing import NamedTuple

from modules.config.task import NO_ID

# Split and hash of a row; its locations, as many as there are rows with this hash.
Key = tuple[str, int]
Locations = dict[Key, list[str]]


class Row(NamedTuple):
    """A row that a message names.

    Attributes:
      split: Its split.
      record: The hash of its Example.
      id: Its id, `NO_ID` if it has none.
      values: What is wrong with it; empty if the message says that.
    """

    split: str
    record: int
    id: int
    values: str = ""


@dataclasses.dataclass(frozen=True)
class Message:
    """A text about some rows.

    Attributes:
      text: The text.
      split: The split that it names; rows of others are shown with their split.
      groups: Rows by themselves, or pairs that belong together.
    """

    text: str
    split: str
    groups: Sequence[Sequence[Row]] = ()

    @property
    def keys(self) -> Counter[Key]:
        """How often it names each row."""
        return Counter((row.split, row.record) for rows in self.groups for row in rows)

    def render(self, id_column: str, locations: Locations) -> str:
        """Returns the text with its rows."""
        if not self.groups:
            return self.text
        left = {key: list(locations.get(key, [])) for key in self.keys}
        groups = [
            " and ".join(self._name(row, id_column, left) for row in rows)
            for rows in self.groups
        ]
        return f"{self.text} (rows {'; '.join(groups)})"

    def _name(self, row: Row, id_column: str, left: Locations) -> str:
        split = "" if row.split == self.split else f"{row.split} "
        number = "?" if row.id == NO_ID else row.id
        places = left[row.split, row.record]
        place = f" at {places.pop(0)}" if places else ""
        values = f": {row.values}" if row.values else ""
        return f"{split}{id_column} {number}{place}{values}"


def render(
    messages: Sequence[Message],
    id_column: str,
    locate: Callable[[Iterable[Key]], Locations],
) -> list[str]:
    """Returns the texts with their rows.

    Args:
      messages: The messages.
      id_column: The feature that identifies a row.
      locate: Returns where rows came from. It is called only if there are any.
    """
    keys: Counter[Key] = Counter()
    for message in messages:
        keys |= message.keys
    locations = locate(keys.elements()) if keys else {}
    return [message.render(id_column, locations) for message in messages]
