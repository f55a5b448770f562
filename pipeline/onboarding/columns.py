"""Summaries of the columns of a data set, from one pass over its rows."""

from __future__ import annotations

import dataclasses
import re
import string
from collections import Counter
from collections.abc import Callable, Iterable
from typing import Any

from contracts import row_values
from contracts.task import label_cells
from contracts.task.definition import LARGEST_SCORE
from contracts.task.label_cells import PREFIX, CellError, canonical_label, to_text
from ingest.rows.row_errors import RowError

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
# They may separate labels, but many names of one class have them.
_UNUSUAL = ("-", "_", ":", "~", "^", "\\", "•", "、", "，", "；")  # noqa: RUF001
SEPARATORS = (PREFIX, "|", ";", "#", "\n", ",", "/", "+", "&", " ", *_UNUSUAL)
_IN_NAMES = ("/", "+", "&", " ")  # a name of one class often has them
_CROWDED = (LISTS, PREFIX, "|", ";", ",")  # texts have the other separators, too
_VALUES_PER_NAME = 3  # from which on values are combinations of names


@dataclasses.dataclass
class Names:
    """The names in the values of a column, each of which may have several.

    Attributes:
      first: The names of the first value with each name.
      sizes: The numbers of names that values have.
      recurring: The names that occur in different values, `b|a` and `a|b` among them.
        A class that is called `Arts, Crafts` has parts that occur only together.
      moving: The names that occur at different positions.
      alone: The names that are a value.
      several: The number of values of several names.
      odd: The number of values that hold no names, or 0 or 1 for each label.
      problem: Why the first of these holds no labels.
    """

    first: dict[str, list[str]] = dataclasses.field(default_factory=dict)
    sizes: set[int] = dataclasses.field(default_factory=set)
    recurring: set[str] = dataclasses.field(default_factory=set)
    moving: set[str] = dataclasses.field(default_factory=set)
    alone: set[str] = dataclasses.field(default_factory=set)
    several: int = 0
    odd: int = 0
    problem: str = ""

    @property
    def recur(self) -> bool:
        """Whether most names occur in different values."""
        return 2 * len(self.recurring) > len(self.first)

    @property
    def are_alone(self) -> bool:
        """Whether each name is a value; `very` of `very good` is not."""
        return self.alone >= self.first.keys()

    def add(self, value: Any, separator: str) -> None:
        """Adds the names of a value."""
        try:
            labels = label_cells.read_cell(value, separator)
        except CellError as error:
            self.odd += 1
            self.problem = self.problem or str(error)
            return
        texts = map(to_text, labels)
        names = list(dict.fromkeys(filter(None, texts)))
        if len(names) > 1 and label_cells.are_flags(names):
            self.odd += 1
            self.problem = self.problem or label_cells.describe_flags(value)
        self.sizes.add(len(names))
        self.several += len(names) > 1
        if len(names) == 1:
            self.alone.update(names)
        for index, name in enumerate(names):
            first = self.first.setdefault(name, names)
            if first != names:
                self.recurring.add(name)
            if first.index(name) != index:
                self.moving.add(name)


def _names_by_separator(separators: Iterable[str]) -> dict[str, Names]:
    return {separator: Names() for separator in (LISTS, *separators)}


@dataclasses.dataclass
class Column:
    """The values of a column.

    Attributes:
      filled: Rows with a value.
      missing: The number of rows without one, by what stands for it.
      values: The number of rows by value, as text; None if there are too many.
      names: The names in values, by what separates them, or `LISTS`; without those
        that are too many.
      crowded: The separators, or `LISTS`, of names that are too many.
      cells: Values that are lists or objects, and different texts.
      lists: Those that are lists or objects.
      texts: Rows whose value is text, but not a number.
      words: Words of these texts, as are `letters` and `characters`.
      numbers: Rows whose value is a number.
      low: The lowest number that can be a score; `high` is the highest.
      are_ids: Whether all numbers can be ids.
    """

    name: str
    filled: int = 0
    missing: Counter[str] = dataclasses.field(default_factory=Counter)
    values: Counter[str] | None = dataclasses.field(default_factory=Counter)
    names: dict[str, Names] = dataclasses.field(
        default_factory=lambda: _names_by_separator(SEPARATORS)
    )
    crowded: set[str] = dataclasses.field(default_factory=set)
    cells: int = 0
    lists: int = 0
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
            values[0].strip().removeprefix(PREFIX) if len(values) == 1 else label: sum(
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
        return self._fewest_names(self._separates)

    @property
    def unclear_separator(self) -> str | None:
        """What separates labels, unless each value is one class; or None."""
        return self._fewest_names(self._may_separate)

    def _fewest_names(self, is_separator: Callable[[str, Names], bool]) -> str | None:
        separators = [s for s, names in self.names.items() if is_separator(s, names)]
        return min(separators, key=lambda s: len(self.names[s].first), default=None)

    def _separates(self, separator: str, names: Names) -> bool:
        if separator in _UNUSUAL:
            return False
        if separator == LISTS:
            return self.holds_lists and max(names.sizes, default=0) > 1
        # `3,5` and `1 000` may be numbers.
        is_number = separator in (",", *_IN_NAMES) and all(
            map(str.isdecimal, names.first)
        )
        return (
            max(names.sizes, default=0) > (2 if is_number else 1)
            and names.recur
            and (
                self._varies(separator, names)
                or (separator not in (",", *_IN_NAMES) and bool(names.moving))
            )
            and (separator not in _IN_NAMES or self._has_combinations(names))
            and (separator != " " or names.are_alone)
        )

    def _may_separate(self, separator: str, names: Names) -> bool:
        if separator == LISTS or self.is_numeric or names.several < 2:
            return False
        if separator == "," and all(map(str.isdecimal, names.first)):
            return False  # decimal commas
        if separator in _UNUSUAL or self._has_combinations(names):
            return self._has_combinations(names)
        if not self._varies(separator, names):
            # The parts of `good, cheap` and `bad, cheap` have a position.
            return names.recur and 2 * len(names.moving) > len(names.first)
        return names.recur and (separator != " " or names.are_alone)

    def _varies(self, separator: str, names: Names) -> bool:
        """Returns whether values have different numbers of names."""
        # An empty text means no label; next to names with a comma, a missing one.
        has_empty = separator not in (",", *_IN_NAMES) and any(
            not mark.strip() for mark in self.missing
        )
        return len(names.sizes) + has_empty > 1

    def _has_combinations(self, names: Names) -> bool:
        """Returns whether values are so many that they are combinations of names."""
        number = MOST_VALUES if self.values is None else len(self.values)
        return _VALUES_PER_NAME * len(names.first) <= number

    @property
    def problem(self) -> str | None:
        """Why most values hold no labels, to follow the column's name; or None."""
        for names in self.names.values():
            if 2 * names.odd > self.cells:
                return names.problem
        return None

    @property
    def holds_lists(self) -> bool:
        """Whether most values are lists."""
        return 2 * self.lists > self.cells

    @property
    def mean_words(self) -> float:
        """Mean number of words of a text; 0 without texts."""
        return self.words / self.texts if self.texts else 0.0

    @property
    def is_numeric(self) -> bool:
        """Whether all values are numbers."""
        return 0 < self.filled == self.numbers

    @property
    def has_fractions(self) -> bool:
        """Whether all values are numbers, and not all are whole."""
        return self.is_numeric and not self.is_whole

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
        if isinstance(value, list | dict):
            self.filled += 1
            self.cells += 1
            self._add_list(value)
            return
        if row_values.is_missing(value):
            self.missing["" if value is None else to_text(value)] += 1
            return
        text = to_text(value)
        self.filled += 1
        if self.values is None or text not in self.values:
            self.cells += 1
            if not self._add_list(text):
                for separator in self.names.keys() - {LISTS}:
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

    def _add_list(self, value: Any) -> bool:
        """Adds the names of a list; returns whether the value is one."""
        try:
            if label_cells.parse_list(value) is None:
                return False
        except CellError:
            pass  # `_add_names` counts it
        self.lists += 1
        self._add_names(LISTS, value)
        return True

    def _add_names(self, separator: str, value: Any) -> None:
        names = self.names.get(separator)
        if names is None:
            return
        names.add(value, separator)
        if len(names.first) > MOST_LABELS:
            del self.names[separator]
            # Any text is one name without its separator.
            if names.several and names.recurring and separator in _CROWDED:
                self.crowded.add(separator)


def add_row(
    columns: dict[str, Column],
    row: dict[str, Any] | RowError,
    separators: Iterable[str] = SEPARATORS,
) -> None:
    """Adds the values of a row to the columns by name; an error has no values."""
    if isinstance(row, RowError):
        return
    for name, value in row.items():
        if name not in columns:
            columns[name] = Column(name, names=_names_by_separator(separators))
        columns[name].add(value)


def _to_number(text: str) -> float | None:
    if len(text) > _LONGEST_NUMBER or not _DIGIT.search(text):
        return None
    try:
        return float(text)
    except ValueError:
        return None
