"""Finds labels that are in the texts: a word that occurs in one class alone."""

from __future__ import annotations

import heapq
import itertools
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence

from contracts import wording
from contracts.task.definition import TRAIN_SPLIT, TaskConfig
from modules.data.judgment import SHOWN, Finding

LEAKED_LABEL = "leaked label"  # kind of the finding

MOST_ROWS = 5000  # of a sample
_ENDS = 64  # words at each end of a text
_LEAST_ROWS = 30  # of a class in the sample
_LARGEST_HASH = 2**64 - 1

Words = Sequence[Sequence[str]]  # of each text of a row
Label = float | Sequence[float]  # a class, or 0 or 1 for each of several labels
Sampled = tuple[int, Label, Words]  # key, label, words


class WordSample:
    """The words of a part of the rows: at most 5,000, in any order the same.

    Args:
      rows: Rows of other samples.
    """

    def __init__(self, rows: Iterable[Sampled] = ()) -> None:
        # A heap has its smallest item first, and the largest key is the one to replace.
        self._rows = [
            (-key, label, words)
            for key, label, words in heapq.nsmallest(MOST_ROWS, rows)
        ]
        heapq.heapify(self._rows)

    @property
    def bound(self) -> int:
        """Rows with a larger key are not added."""
        is_full = len(self._rows) == MOST_ROWS
        return -self._rows[0][0] if is_full else _LARGEST_HASH

    def add(self, key: int, label: Label, words: Words) -> None:
        """Adds a row if its hash, the key, is one of the smallest."""
        heapq.heappush(self._rows, (-key, label, words))
        if len(self._rows) > MOST_ROWS:
            heapq.heappop(self._rows)

    @property
    def rows(self) -> list[Sampled]:
        """The rows, in the order of their keys."""
        return sorted((-key, label, words) for key, label, words in self._rows)


def cut_words(words: Sequence[str]) -> list[str]:
    """Returns the words at both ends of a text, where a label is if it leaked."""
    return [*words[:_ENDS], *words[max(_ENDS, len(words) - _ENDS) :]]


def judge(sample: WordSample, task: TaskConfig, limit: float) -> Iterator[Finding]:
    """Yields the finding of words that are almost a class, if any.

    Args:
      sample: Rows of the training split.
      task: The classes. Scores are not judged.
      limit: The largest F1 of a class, and of the other classes, that are predicted by
        whether a row has one word. 1 judges nothing.
    """
    names = task.label_kind.names
    if not names or limit >= 1:
        return
    rows = [(label, set(_features(words))) for _, label, words in sample.rows]
    total = Counter(itertools.chain.from_iterable(features for _, features in rows))
    found, leaked_rows = [], 0
    for index, name in enumerate(names):
        of_class = [
            features
            for label, features in rows
            if (label[index] if isinstance(label, Sequence) else label == index)
        ]
        size = len(of_class)
        if size < _LEAST_ROWS:
            continue
        counts = Counter(itertools.chain.from_iterable(of_class))

        def score(feature: str, counts: Counter = counts, size: int = size) -> float:
            with_it, others = total[feature], len(rows) - size
            both = counts[feature]
            neither = len(rows) - with_it - size + both
            f1 = 2 * both / (size + with_it)
            # A word that all rows have says nothing about a class of nearly all rows.
            f1_of_others = 2 * neither / max(len(rows) - with_it + others, 1)
            return min(f1, f1_of_others)

        # Of equal ones, the shortest: the word alone rather than with another.
        best = max(counts, key=lambda f: (score(f), -len(f), f), default=None)
        if best is not None and score(best) > limit:
            leaked_rows += size
            found.append(
                f"{best} is in {counts[best]} of {size} rows of the class `{name}` and "
                f"in {total[best] - counts[best]} of {len(rows) - size} others"
            )
    if not found:
        return
    more = (
        f", and {wording.count(len(found) - SHOWN, 'more class', 'more classes')}"
        if len(found) > SHOWN
        else ""
    )
    # Of many classes, a few may have a word of their own. If all but one have, the rest
    # is the last one: of two, a word of one class is enough.
    # No label of several is what the others leave.
    decides_all = len(found) >= task.label_kind.free_names
    is_refused = decides_all or 2 * leaked_rows >= len(rows)
    advice = (
        "the label seems to be in the texts, and a model would learn only that; remove "
        "it from them, or set data_gate.max_word_f1 to 1 if the word decides in other "
        "texts, too"
        if is_refused
        else "check that no label is in the texts; data_gate.max_word_f1: 1 ignores it"
    )
    message = f"{TRAIN_SPLIT}: {'; '.join(found[:SHOWN])}{more}: {advice}"
    yield Finding(LEAKED_LABEL, TRAIN_SPLIT, message, is_refused)


def _features(words: Words) -> Iterator[str]:
    """Yields the words of a row, their pairs, and the words at both ends."""
    for index, of_text in enumerate(words):
        place = f" in text {index + 1}" if len(words) > 1 else ""
        yield from (f"'{word}'{place}" for word in of_text)
        pairs = map(" ".join, itertools.pairwise(of_text))
        yield from (f"'{pair}'{place}" for pair in pairs)
        if of_text:
            yield f"'{of_text[0]}' at the start{place}"
            yield f"'{of_text[-1]}' at the end{place}"
