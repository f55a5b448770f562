"""Swaps words for groups of people in texts."""

from __future__ import annotations

import collections
import functools
import json
import re
from collections import Counter
from collections.abc import Sequence
from pathlib import Path

from contracts.errors import SettingError

# A row of a list has words that replace each other, one of each group.
WordList = list[list[str]]

_ENGLISH = Path(__file__).with_name("group_words.json")
_WORD = re.compile(r"\w+(?:[-\u2010]\w+)*")
# A word that is in several rows of a list, such as `her` for `his` and `him`, takes the
# first row if a noun phrase may follow it, and the last row if not.
_NOUN = re.compile(
    r"\s+(?!(?:a|about|after|again|all|an|and|any|are|as|at|be|because|been|before|but|"
    r"by|can|could|did|do|does|during|for|from|had|has|have|he|how|i|if|in|into|is|it|"
    r"just|may|might|must|not|now|of|off|on|or|out|over|shall|she|should|since|so|some|"
    r"than|that|the|their|then|there|these|they|this|those|through|to|today|tomorrow|"
    r"under|until|up|was|we|were|what|when|where|whether|which|while|who|why|will|with|"
    r"without|would|yesterday|you)\b)\w",
    re.IGNORECASE,
)


class WordSwaps:
    """Swaps the words of one list.

    In each version, every word is replaced by that of the group that is a number of
    columns further, so that different groups stay different.

    Args:
      rows: A list that `check_list` accepts.

    Attributes:
      words: The words of the list, in lower case.
    """

    def __init__(self, rows: Sequence[Sequence[str]]) -> None:
        self._rows = [[word.lower() for word in row] for row in rows]
        self._groups = len(rows[0])
        self._places = collections.defaultdict[str, list[tuple[int, int]]](list)
        for index, row in enumerate(self._rows):
            for column, word in enumerate(row):
                self._places[word].append((index, column))
        self.words = frozenset(self._places)

    def versions(self, texts: Sequence[str]) -> list[list[str]]:
        """Returns the texts of a row with swapped words, for each other group.

        It returns no version if no text has one of the words.
        """
        words = (word.lower() for text in texts for word in _WORD.findall(text))
        if self.words.isdisjoint(words):
            return []
        swaps = (
            functools.partial(self._swap, shift) for shift in range(1, self._groups)
        )
        return [[_WORD.sub(swap, text) for text in texts] for swap in swaps]

    def _swap(self, shift: int, match: re.Match[str]) -> str:
        word = match[0]
        places = self._places.get(word.lower())
        if places is None:
            return word
        row, column = places[0 if _NOUN.match(match.string, match.end()) else -1]
        other = self._rows[row][(column + shift) % self._groups]
        if word.isupper():
            return other.upper()
        return other[0].upper() + other[1:] if word[0].isupper() else other


@functools.cache
def read_english_lists() -> dict[str, WordList]:
    """Returns the lists of English words by name."""
    return json.loads(_ENGLISH.read_text(encoding="utf-8"))


def check_list(rows: WordList) -> None:
    """Refuses a list whose words cannot be swapped.

    Raises:
      SettingError: The rows have different numbers of words or fewer than two, an entry
        is not one word, or a word names two groups.
    """
    sizes = {len(row) for row in rows}
    if len(sizes) != 1 or min(sizes) < 2:
        raise SettingError(
            got=f"a list has rows of {sorted(sizes)} words",
            advice="give one row or more, and in each a word for each of the same two "
            "or more groups, such as [[he, she], [man, woman]]",
        )
    for word in (word for row in rows for word in row):
        if not _WORD.fullmatch(word):
            raise SettingError(
                got=f"{word!r} is not one word",
                advice="leave its row out, or write words of letters, digits and "
                "hyphens",
            )
    groups = [{word.lower() for word in group} for group in zip(*rows, strict=True)]
    counts = Counter(word for group in groups for word in group)
    for word in (word for word, count in counts.items() if count > 1):
        raise SettingError(
            got=f"{word!r} names two groups",
            advice="let a word name one of them",
        )
