"""Swaps words for groups of people in texts."""

from __future__ import annotations

import collections
import functools
import re
from collections.abc import Sequence

from contracts.settings.evaluator import WORD

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
      rows: The list, as in `GroupWords`.

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
        """Returns the texts of a row with swapped words, for each other group."""
        swaps = (
            functools.partial(self._swap, shift) for shift in range(1, self._groups)
        )
        return [[WORD.sub(swap, text) for text in texts] for swap in swaps]

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
