"""Summaries of the columns of a data set, from one pass over its rows."""

from __future__ import annotations

import dataclasses
import re
import string
from collections import Counter
from typing import Any

from ingest.rows.row_errors import RowError
from modules.config.task import LARGEST_SCORE, canonical_label
from modules.data import row_values

# Chinese, Japanese and Korean, which are written without spaces.
_WIDE = re.compile("[\u2e80-\U0010ffff]")
_WIDE_PER_WORD = 2
_DIGIT = re.compile(r"\d")
_LONGEST_NUMBER = 30  # characters
_ASCII_LETTERS = string.ascii_letters.encode()
_FREQUENT = 0.5  # of the smallest class; a missing label is rarer
MOST_VALUES = 1000  # that are counted; a column with more has no classes
MOST_LABELS = 200
LISTS = ""  # instead of a separator
SEPARATORS = ("|", ";", ",")  # of names


@dataclasses.dataclass
class Names:
    """The names in the values of a column, each of which may have several.

    Attributes:
      first: The names of the first value with each name.
      sizes: The numbers of names that values have.
      recurring: The names that occur in different values: alone, or with other names.
        A class that is called `Arts, Crafts` has parts that occur only together.
    """

    first: dict[str, list[str]] = dataclasses.field(default_factory=dict)
    sizes: set[int] = dataclasses.field(default_factory=set)
    recurring: set[str] = dataclasses.field(default_factory=set)

    def add(self, names: list[str]) -> bool:
        """Adds the names of a value; returns whether all so far can be labels."""
        self.sizes.add(len(names))
        for name in names:
            if self.first.setdefault(name, names) != names:
                self.recurring.add(name)
        is_set = all(names) and len(set(names)) == len(names)
        return is_set and len(self.first) <= MOST_LABELS


@dataclasses.dataclass
class Column:
    """The values of a column.

    Attributes:
      name: Its name.
      filled: Rows with a value.
      missing: The number of rows without one, by what stands for it.
      values: The number of rows by value, as text; None if there are too many.
      names: The names in values, by what separates them, or `LISTS`; without those
        that are too many, or are twice in a value.
      crowded: The separators, or `LISTS`, of names that are too many.
      texts: Rows whose value is text, but not a number.
      words: Words of these texts.
      letters: Letters of these texts.
      characters: Characters of these texts.
      numbers: Rows whose value is a number.
      low: The lowest number that can be a score.
      high: The highest number that can be a score.
      is_whole: Whether all numbers are whole.
      are_ids: Whether all numbers can be ids.
    """

    name: str
    filled: int = 0
    missing: Counter[str] = dataclasses.field(default_factory=Counter)
    values: Counter[str] | None = dataclasses.field(default_factory=Counter)
    names: dict[str, Names] = dataclasses.field(
        default_factory=lambda: {s: Names() for s in (LISTS, *SEPARATORS)}
    )
    crowded: set[str] = dataclasses.field(default_factory=set)
    texts: int = 0
    words: int = 0
    letters: int = 0
    characters: int = 0
    numbers: int = 0
    low: float = float("inf")
    high: float = float("-inf")
    is_whole: bool = True
    are_ids: bool = True

    @property
    def labels(self) -> dict[str, int] | None:
        """The number of rows by class; None if there are too many.

        A class has the spelling that all of its rows have, or that of
        `canonical_label`.
        """
        if self.values is None:
            return None
        return {
            values[0].strip() if len(values) == 1 else label: sum(
                self.values[value] for value in values
            )
            for label, values in self.spellings.items()
        }

    @property
    def spellings(self) -> dict[str, list[str]]:
        """The values of each canonical label; empty if there are too many."""
        spellings: dict[str, list[str]] = {}
        for value in self.values or ():
            spellings.setdefault(canonical_label(value), []).append(value)
        return spellings

    @property
    def frequent_marks(self) -> list[str]:
        """What may stand for a missing value or be a class, as its rows are many."""
        least = _FREQUENT * min((self.labels or {}).values(), default=0)
        return [
            mark
            for mark, count in self.missing.items()
            if mark.strip() and self.labels and count >= least
        ]

    @property
    def are_indices(self) -> bool:
        """Whether the values are the whole numbers from 0 to their number."""
        labels = self.spellings.keys()
        return bool(labels) and labels == set(map(str, range(len(labels))))

    @property
    def flags(self) -> set[str] | None:
        """The marks of the rows with and without a label, if the values are both."""
        labels = self.spellings.keys()
        marks = {row_values.FLAGS.get(label) for label in labels}
        return {*labels} if len(labels) == 2 and marks == {0, 1} else None

    @property
    def separator(self) -> str | None:
        """What separates the labels of a row, or `LISTS`; None if a row has one."""
        has_empty = any(not mark.strip() for mark in self.missing)
        for separator, names in self.names.items():
            most = max(names.sizes, default=0)
            # `3,5` may be a number.
            is_number = separator == "," and all(map(str.isdecimal, names.first))
            recur = 2 * len(names.recurring) > len(names.first)
            if (
                most > (2 if is_number else 1)
                # An empty text is no label; of names with a comma, it may be missing.
                and len(names.sizes) + (has_empty and separator in ("|", ";")) > 1
                and (recur or separator == LISTS)
            ):
                return separator
        return None

    @property
    def holds_lists(self) -> bool:
        """Whether all values are lists."""
        return self.filled > 0 and self.values is not None and not self.values

    @property
    def mean_words(self) -> float:
        """Mean number of words of a text; 0 without texts."""
        return self.words / self.texts if self.texts else 0.0

    @property
    def is_numeric(self) -> bool:
        """Whether all values are numbers."""
        return 0 < self.filled == self.numbers

    @property
    def holds_ids(self) -> bool:
        """Whether all values can be ids."""
        return self.is_numeric and self.are_ids

    @property
    def is_text(self) -> bool:
        """Whether most values are sentences, and not names, dates or addresses."""
        return (
            self.texts > self.filled / 2
            and self.letters > self.characters / 2
            and self.mean_words >= 1.5
            and (self.values is None or len(self.values) > self.filled / 5)
        )

    def add(self, value: Any) -> None:
        """Counts a value."""
        if isinstance(value, dict):
            return
        if isinstance(value, list):
            if all(isinstance(name, str | int) for name in value):
                self.filled += 1
                self._add_names(LISTS, value)
            return
        if row_values.is_missing(value):
            self.missing["" if value is None else row_values.to_text(value)] += 1
            return
        text = row_values.to_text(value)
        self.filled += 1
        if self.values is None or text not in self.values:
            for separator in SEPARATORS:
                self._add_names(separator, text)
        if self.values is not None:
            self.values[text] += 1
            if len(self.values) > MOST_VALUES:
                self.values = None
        number = _to_number(text)
        if number is not None:
            self.numbers += 1
            if abs(number) <= LARGEST_SCORE:
                self.low = min(self.low, number)
                self.high = max(self.high, number)
            self.is_whole = self.is_whole and number.is_integer()
            self.are_ids = self.are_ids and row_values.parse_id(value) is not None
        elif isinstance(value, str):
            self.texts += 1
            words = len(text.split())
            if text.isascii():  # bytes are counted ten times as fast
                content = text.encode()
                letters = len(content) - len(content.translate(None, _ASCII_LETTERS))
            else:
                letters = sum(map(str.isalpha, text))
                words = max(words, len(_WIDE.findall(text)) // _WIDE_PER_WORD)
            self.words += words
            self.characters += len(text) - text.count(" ")
            self.letters += letters

    def _add_names(self, separator: str, value: str | list[Any]) -> None:
        names = self.names.get(separator)
        if names is not None:
            parts = row_values.split_names(value, separator)
            if not names.add([row_values.to_text(part) for part in parts]):
                del self.names[separator]
                # Any text is one name without its separator.
                are_several = max(names.sizes) > 1 and names.recurring
                if are_several and len(names.first) > MOST_LABELS:
                    self.crowded.add(separator)


def add_row(columns: dict[str, Column], row: dict[str, Any] | RowError) -> None:
    """Adds the values of a row to the columns by name; an error has no values."""
    if isinstance(row, RowError):
        return
    for name, value in row.items():
        if name not in columns:
            columns[name] = Column(name)
        columns[name].add(value)


def _to_number(text: str) -> float | None:
    if len(text) > _LONGEST_NUMBER or not _DIGIT.search(text):
        return None
    try:
        return float(text)
    except ValueError:
        return None
