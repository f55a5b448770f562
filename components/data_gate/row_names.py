"""Names rows in messages by their id and by their origin, a file and a row."""

from __future__ import annotations

import dataclasses
from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from typing import NamedTuple

from contracts.errors import named
from contracts.task.definition import NO_ID

# Split and hash of a row; the locations of all rows with this hash.
Key = tuple[str, int]
Locations = dict[Key, list[str]]


class Row(NamedTuple):
    """A row that a message names.

    Attributes:
      split: Its split.
      record: The hash of its Example.
      id: Its id, `NO_ID` if it is missing.
      values: The invalid values; empty if the message describes them.
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
      split: The split in the text; rows of other splits are shown with their split.
      groups: Single rows, or pairs with equal texts.
      name: The stable name of a refusal; empty for a warning.
    """

    text: str
    split: str
    groups: Sequence[Sequence[Row]] = ()
    name: str = ""

    @property
    def keys(self) -> Counter[Key]:
        """The number of times that the message names each row."""
        return Counter((row.split, row.record) for rows in self.groups for row in rows)

    def render(self, id_column: str, locations: Locations) -> str:
        """Returns the text with its rows and its name."""
        left = {key: list(locations.get(key, [])) for key in self.keys}
        groups = [
            " and ".join(self._name(row, id_column, left) for row in rows)
            for rows in self.groups
        ]
        text = f"{self.text} (rows {'; '.join(groups)})" if groups else self.text
        return named(text, self.name) if self.name else text

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
      locate: Returns the locations of rows. It is called only if there are rows.
    """
    keys: Counter[Key] = Counter()
    for message in messages:
        keys |= message.keys
    locations = locate(keys.elements()) if keys else {}
    return [message.render(id_column, locations) for message in messages]
