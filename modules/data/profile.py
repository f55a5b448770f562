"""The labels and lengths of a split as histograms, and the distance between two."""

from __future__ import annotations

import dataclasses
import math

import numpy as np
from scipy import stats

from contracts.records.data import Lengths, SplitProfile
from contracts.task.definition import TaskConfig
from modules.data.row_facts import RowFacts


@dataclasses.dataclass(frozen=True)
class Profile:
    """Counts of a split's rows.

    Attributes:
      labels: Number of rows by the name of the class, or in a regression by the lower
        edge of a hundredth of `label_range`. Of several labels, a row counts for each
        of its own.
      lengths: Number of rows by length in tokens, from 0.
      span: The span, of a profile that `span_profiles` wrote.
      tokens: Number of tokens, without special tokens.
      words: Number of words.
      unknown: Number of tokens that are `[UNK]`.
    """

    labels: dict[str, int]
    lengths: list[int]
    span: int | None = None
    tokens: int = 0
    words: int = 0
    unknown: int = 0

    @classmethod
    def of(cls, facts: RowFacts, task: TaskConfig) -> Profile:
        """Counts the rows of a split."""
        # Longer rows count as 10,000 tokens long.
        lengths = np.bincount(np.minimum(facts.lengths, 10_000))
        return cls(
            task.label_kind.histogram(facts.labels),
            lengths.tolist(),
            tokens=int(facts.tokens.sum()),
            words=int(facts.words.sum()),
            unknown=int(facts.unknown.sum()),
        )

    @property
    def rows(self) -> int:
        """The number of rows."""
        return sum(self.lengths)

    @property
    def mean_length(self) -> float:
        """The mean length in tokens; the split must have a row."""
        return float(np.average(np.arange(len(self.lengths)), weights=self.lengths))

    @property
    def unknown_share(self) -> float:
        """The share of the tokens that are `[UNK]`; 0 without tokens."""
        return self.unknown / max(self.tokens, 1)

    @property
    def tokens_per_word(self) -> float:
        """The mean number of tokens of a word; 0 without words."""
        return self.tokens / max(self.words, 1)

    def length_at(self, quantile: float) -> int:
        """Returns the length that a share of the rows does not exceed."""
        return int(np.searchsorted(np.cumsum(self.lengths), quantile * self.rows))

    def summary(self, max_seq_length: int) -> SplitProfile:
        """Returns counts, quantiles and histograms for a report.

        Args:
          max_seq_length: Longest row in tokens; longer ones are cut.
        """
        is_filled = bool(self.rows)
        shares = (0.05, 0.5, 0.95, 1.0)
        quantiles = {f"{q:.0%}": self.length_at(q) for q in shares if is_filled}
        filled = {name: count for name, count in self.labels.items() if count}
        tokens = np.arange(len(self.lengths))
        counts, edges = np.histogram(tokens, bins=30, weights=self.lengths)
        cut = self.lengths[max_seq_length + 1 :]
        return SplitProfile(
            rows=self.rows,
            labels=filled,
            tokens=quantiles,
            lengths=Lengths(
                edges=edges.tolist(),
                counts=counts.astype(int).tolist(),
                cut_rows=sum(cut),
                cut_tokens=sum(n * rows for n, rows in enumerate(cut, start=1)),
                unknown_share=self.unknown_share,
                tokens_per_word=self.tokens_per_word,
            ),
        )


def compare_classes(
    first: Profile, second: Profile, *, counts_once: bool = True
) -> tuple[str, float, float]:
    """Returns the class whose share differs most, the difference, and its p-value.

    Args:
      first: A profile.
      second: The other one.
      counts_once: Whether each row counts for one name. Otherwise each name is tested
        by itself, and the p-value is that of the least one of as many tests
        (Bonferroni).
    """
    counts = np.array([list(first.labels.values()), list(second.labels.values())])
    rows = np.array([[first.rows], [second.rows]])
    differences = np.abs(np.diff(counts / rows, axis=0)[0])
    largest = int(differences.argmax())
    name, difference = list(first.labels)[largest], float(differences[largest])
    if counts_once:
        present = counts[:, counts.any(axis=0)]
        return name, difference, float(stats.chi2_contingency(present).pvalue)
    if not difference:
        return name, difference, 1.0
    having = counts[:, [largest]]
    result = stats.chi2_contingency(np.hstack([having, rows - having]))
    return name, difference, min(1.0, float(result.pvalue) * len(differences))


def compare_counts(first: list[int], second: list[int]) -> tuple[float, float]:
    """Returns the Kolmogorov-Smirnov statistic of two histograms, and its p-value."""
    size = max(len(first), len(second))
    counts = np.array([row + [0] * (size - len(row)) for row in (first, second)])
    totals = counts.sum(axis=1, keepdims=True)
    cumulative = np.cumsum(counts, axis=1) / totals
    statistic = float(np.abs(cumulative[0] - cumulative[1]).max())
    effective = float(totals.prod() / totals.sum())
    return statistic, float(stats.kstwobign.sf(statistic * math.sqrt(effective)))


def compare_lengths(new: Profile, reference: Profile) -> tuple[float, float]:
    """Returns the distance of lengths from those of a reference, and its p-value.

    It is the Wasserstein distance divided by the reference's mean length: 0.2 if each
    row is a fifth longer. The p-value is that of the Kolmogorov-Smirnov statistic. The
    statistic is no measure of distance: it can be 1 if each row has one token more.
    """
    counts = [np.array(profile.lengths) for profile in (new, reference)]
    tokens = [np.arange(len(lengths)) for lengths in counts]
    distance = stats.wasserstein_distance(*tokens, *counts)
    _, p = compare_counts(new.lengths, reference.lengths)
    return float(distance) / reference.mean_length, p
