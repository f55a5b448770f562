"""The rows of a person: those with a value in a column, and copies without the column.

Examples, pushed rows and samples have the text columns of the task, and seldom the
column that names a person. There, a row is the person's if a row with the column has
all of its texts.
"""

from __future__ import annotations

import functools
import html
import itertools
import json
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

from contracts.task.label_cells import canonical_label, to_text

FORGOTTEN = "[forgotten]"
_SHORTEST = 8  # a shorter text is found as a value of a row, not within other text
_PREFIX = 40  # a message quotes at least so much of a longer text
# After a shortened text: the end of a line, an ellipsis, or the end of the quote.
_CUT = re.compile(r"$|…|\.\.\.|['\"](?!\w)", re.MULTILINE)


class Person:
    """A person, or anything else that a value of a column stands for.

    Args:
      column: The column.
      value: The value.
      text_columns: The text columns of each task that was trained.

    Attributes:
      columns: The columns of all rows.
      texts: The texts that only rows of this person have.
    """

    def __init__(
        self, column: str, value: str, text_columns: Iterable[Sequence[str]]
    ) -> None:
        self._column, self._value = column, canonical_label(value)
        self._text_columns = list(text_columns)
        self._rows: dict[str, list[frozenset[str]]] = {}
        self.columns: set[str] = set()
        self.texts: set[str] = set()

    def learn(self, rows: Iterable[Mapping[str, Any]]) -> bool:
        """Reads rows; returns whether one of them has the value."""
        is_found = False
        for row in rows:
            self.columns.update(row)
            if self._is_value(row.get(self._column)):
                is_found = True
                texts = frozenset(_texts(row))
                self.texts |= texts
                for text in texts:
                    self._rows.setdefault(text, []).append(texts)
        return is_found

    def claims(self, row: Mapping[str, Any]) -> bool:
        """Returns `owns`; call it with all rows, after `learn`.

        A text that another row has, too, does not identify the person.
        """
        is_own = self.owns(row)
        if not is_own:
            self.texts.difference_update(_texts(row))
        return is_own

    def owns(self, row: Mapping[str, Any]) -> bool:
        """Returns whether a row, with the column or without it, is the person's."""
        if row.get(self._column) is not None:
            return self._is_value(row[self._column])
        read = ([row.get(name) for name in names] for names in self._text_columns)
        return any(self.has(texts) for texts in read if None not in texts)

    def has(self, texts: Sequence[Any]) -> bool:
        """Returns whether one row of the person has all of some texts."""
        rows = self._rows.get(texts[0], ()) if texts else ()
        return any(row.issuperset(texts) for row in rows)

    def _is_value(self, value: Any) -> bool:
        values = value if isinstance(value, list) else [value]
        texts = (to_text(v) for v in values if v is not None and v == v)  # no NaN
        return self._value in map(canonical_label, texts)

    @functools.cached_property
    def _forms(self) -> list[str]:
        """The spellings of the texts in files; `claims` is not called any more."""
        texts = {text for text in self.texts if len(text) >= _SHORTEST}
        # As reports and cards name a slice.
        texts |= {f"{self._column}{between}{self._value}" for between in (": ", " ")}
        forms = itertools.chain.from_iterable(map(_spellings, texts))
        return sorted({*forms}, key=len, reverse=True)

    @functools.cached_property
    def encoded(self) -> list[bytes]:
        """What `has_text` searches for, the longest first."""
        return [form.encode() for form in self._forms]

    def mask(self, content: str) -> str:
        """Returns content without the texts, also where a message has shortened them.

        Args:
          content: A file that is not JSON, or a text of a JSON file. If all of it is
            only the beginning of a text, it is the text of another row.
        """
        for form in self._forms:
            start, rest = form[:_PREFIX], form[_PREFIX:]
            if not rest:
                whole = rf"(?<!\w){re.escape(form)}(?!\w)"
                content = re.sub(whole, FORGOTTEN, content)
                continue
            first, *parts = content.split(start)
            content = first
            for part in parts:
                count = _count_equal(part, rest)
                is_shortened = content and _CUT.match(part, count)
                if count == len(rest) or is_shortened:
                    content += FORGOTTEN + part[count:]
                else:
                    content += start + part
        return content


def _texts(row: Mapping[str, Any]) -> Iterator[str]:
    for value in row.values():
        values = value if isinstance(value, list) else [value]
        yield from (text for text in values if isinstance(text, str) and text)


def _spellings(text: str) -> set[str]:
    """Returns a text as files have it: in JSON, in HTML, quoted by Python."""
    in_json = (
        json.dumps(text, ensure_ascii=is_ascii)[1:-1] for is_ascii in (False, True)
    )
    by_python = (repr(text)[1:-1], repr(text.encode())[2:-1])
    return {text, html.escape(text), *in_json, *by_python}


def _count_equal(text: str, other: str) -> int:
    pairs = zip(text, other, strict=False)
    return sum(1 for _ in itertools.takewhile(lambda pair: pair[0] == pair[1], pairs))
