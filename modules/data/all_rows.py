"""The rows of all splits, with what several judgments and descriptions share."""

from __future__ import annotations

import dataclasses
import functools
from collections.abc import Mapping, Sequence
from typing import NamedTuple

import numpy as np

from contracts.task.definition import TaskConfig
from modules.data import row_facts
from modules.data.profile import Profile
from modules.data.row_facts import RowFacts

_SCORE_TOLERANCE = 0.2  # of the label range


class EqualRows(NamedTuple):
    """Rows with the texts of other rows.

    Attributes:
      facts: Rows that have the texts of another row, of any split.
      rows: Which of them are concerned.
      total: The number of rows to report.
    """

    facts: RowFacts
    rows: np.ndarray
    total: int


class AllRows:
    """The rows of all splits.

    Equal texts are found once, by one sort of all rows.

    Args:
      facts: The rows by split.
      task: The text columns, and the classes or the range of the scores.

    Attributes:
      splits: The names of the splits.
      filled: The rows by split, without the splits that have none.
    """

    def __init__(self, facts: Mapping[str, RowFacts], task: TaskConfig) -> None:
        self.splits = tuple(facts)
        self.filled = {split: rows for split, rows in facts.items() if len(rows)}
        self._facts, self._task = facts, task

    @functools.cached_property
    def profiles(self) -> dict[str, Profile]:
        """The profile of each split."""
        return {
            split: Profile.of(facts, self._task) for split, facts in self._facts.items()
        }

    @functools.cached_property
    def repeated(self) -> dict[str, RowFacts]:
        """The rows of each filled split that have the texts of another row.

        The other row may be of another split, or a pair in reverse.
        """
        texts = [_texts_of(facts, self._task) for facts in self.filled.values()]
        keys = np.concatenate([np.empty(0, np.uint64), *texts])
        order = np.argsort(keys)
        is_next_equal = np.diff(keys[order]) == 0
        is_repeated = np.zeros(len(keys), bool)
        is_repeated[order[:-1]] = is_next_equal
        is_repeated[order[1:]] |= is_next_equal
        ends = np.cumsum(list(map(len, texts)))[:-1]
        parts = np.split(is_repeated, ends)
        return {
            split: facts.take(np.flatnonzero(part))
            for (split, facts), part in zip(self.filled.items(), parts, strict=False)
        }

    @functools.cached_property
    def contradictions(self) -> EqualRows:
        """The rows, over all splits, that have the texts of a row with another label.

        The rows of one split follow those of another, as in `repeated`.
        """
        facts = RowFacts.concatenate(self.repeated.values())
        order, starts, sizes = group(facts.texts)
        if not len(facts):
            return EqualRows(facts, order, 0)
        labels = facts.label_numbers[order]
        differences = np.maximum.reduceat(labels, starts)
        differences -= np.minimum.reduceat(labels, starts)
        rows = order[np.repeat(_differ(differences, self._task), sizes)]
        return EqualRows(facts, rows, len(rows))

    @functools.cached_property
    def duplicates(self) -> dict[str, EqualRows]:
        """The rows of each split that have the texts of another row of the split.

        The first of equal rows does not count.
        """
        found = {}
        for split, repeated in self.repeated.items():
            (facts,) = _join_reversed([repeated], self._task)
            order, _, sizes = group(facts.texts)
            rows = order[np.repeat(sizes > 1, sizes)]
            found[split] = EqualRows(facts, rows, len(facts) - len(sizes))
        return found

    def shared(self, split: str, other: str) -> tuple[EqualRows, RowFacts]:
        """Returns the rows of a split with texts of another split, and the other's."""
        parts = [self.repeated[split], self.repeated[other]]
        facts, others = _join_reversed(parts, self._task)
        rows = np.flatnonzero(np.isin(facts.texts, others.texts))
        return EqualRows(facts, rows, len(rows)), others


def group(texts: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Groups rows with equal texts.

    Returns:
      The rows, group after group; the first position and the size of each group.
    """
    order = np.argsort(texts, kind="stable")
    ordered = texts[order]
    is_first = np.ones(len(texts), bool)
    is_first[1:] = ordered[1:] != ordered[:-1]
    starts = np.flatnonzero(is_first)
    return order, starts, np.diff(starts, append=len(texts))


def _texts_of(facts: RowFacts, task: TaskConfig) -> np.ndarray:
    """Returns hashes that are equal for a pair and its reverse, uint64[rows]."""
    if len(task.text_columns) == 1:
        return facts.texts
    return row_facts.without_order(facts.texts)


def _join_reversed(parts: Sequence[RowFacts], task: TaskConfig) -> list[RowFacts]:
    """Returns the parts, where a pair and its reverse of the same label are equal.

    The label of a reversed pair may differ: that of a preference, an entailment or a
    ranking does. Such rows are neither duplicates nor contradictions.

    Args:
      parts: The rows to compare with each other.
      task: The classes, or the range of the scores.
    """
    if len(task.text_columns) == 1:
        return list(parts)
    facts = RowFacts.concatenate(parts)
    pairs = row_facts.without_order(facts.texts)
    # The labels of a pair and its reverse that differ least are next to each other.
    labels = facts.label_numbers
    order = np.lexsort((labels, pairs))
    is_agreed = (
        (np.diff(pairs[order]) == 0)
        & (np.diff(facts.texts[order]) != 0)
        & ~_differ(np.diff(labels[order]), task)
    )
    joined = np.isin(pairs, pairs[order][1:][is_agreed])
    texts = np.where(joined, pairs, facts.texts)
    ends = np.cumsum([len(part) for part in parts])
    return [
        dataclasses.replace(part, texts=texts[end - len(part) : end])
        for part, end in zip(parts, ends, strict=True)
    ]


def _differ(differences: np.ndarray, task: TaskConfig) -> np.ndarray:
    """Returns which differences of labels make them different labels, bool[rows]."""
    return differences > _SCORE_TOLERANCE * task.label_kind.score_range
