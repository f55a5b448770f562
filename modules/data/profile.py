"""The distribution of labels and lengths of a split, and how far two are apart."""

from __future__ import annotations

import dataclasses
import math
from typing import Any

import numpy as np
from scipy import stats

from modules.config.task import TaskConfig
from modules.data.row_facts import RowFacts

_SCORE_BINS = 100
_LENGTH_BINS = 30
_LONGEST = 10_000  # tokens; longer rows count as this long
_QUANTILES = (0.05, 0.5, 0.95, 1.0)


@dataclasses.dataclass(frozen=True)
class Profile:
    """A split's rows, counted.

    Attributes:
      labels: Rows by the name of the class; of a regression by the lower edge of a
        hundredth of `label_range`.
      lengths: Rows by their length in tokens: the first has those of 0 tokens.
      span: The span of the data; None if the source has no spans.
    """

    labels: dict[str, int]
    lengths: list[int]
    span: int | None = None

    @classmethod
    def of(cls, facts: RowFacts, task: TaskConfig, span: int | None = None) -> Profile:
        """Counts the rows of a split."""
        if task.classes is not None:
            names = task.classes
            counts = np.bincount(facts.labels.astype(int), minlength=len(names))
        else:
            low, high = task.label_range or (0.0, 1.0)
            counts, edges = np.histogram(facts.labels, _SCORE_BINS, (low, high))
            names = [f"{edge:.9g}" for edge in edges[:-1]]
        lengths = np.bincount(np.minimum(facts.lengths, _LONGEST))
        labels = dict(zip(names, counts.tolist(), strict=True))
        return cls(labels, lengths.tolist(), span)

    @property
    def rows(self) -> int:
        """The number of rows."""
        return sum(self.lengths)

    @property
    def mean_length(self) -> float:
        """The mean length in tokens; there must be a row."""
        return float(np.average(np.arange(len(self.lengths)), weights=self.lengths))

    def length_at(self, quantile: float) -> int:
        """Returns the length that a share of the rows does not exceed."""
        return int(np.searchsorted(np.cumsum(self.lengths), quantile * self.rows))

    def summary(self, max_seq_length: int) -> dict[str, Any]:
        """Returns what a reader wants to know, as JSON can hold it.

        Args:
          max_seq_length: Tokens from which rows are cut.
        """
        is_filled = bool(self.rows)
        quantiles = {f"{q:.0%}": self.length_at(q) for q in _QUANTILES if is_filled}
        filled = {name: count for name, count in self.labels.items() if count}
        tokens = np.arange(len(self.lengths))
        counts, edges = np.histogram(tokens, _LENGTH_BINS, weights=self.lengths)
        cut = self.lengths[max_seq_length + 1 :]
        return {
            "rows": self.rows,
            "labels": filled,
            "tokens": quantiles,
            "lengths": {
                "edges": edges.tolist(),
                "counts": counts.astype(int).tolist(),
                "cut_rows": sum(cut),
                "cut_tokens": sum(n * rows for n, rows in enumerate(cut, start=1)),
            },
        }


def compare_classes(first: Profile, second: Profile) -> tuple[str, float, float]:
    """Returns the class whose share differs most, the difference, and its p-value."""
    counts = np.array([list(first.labels.values()), list(second.labels.values())])
    shares = counts / counts.sum(axis=1, keepdims=True)
    differences = np.abs(shares[0] - shares[1])
    present = counts[:, counts.any(axis=0)]
    result = stats.chi2_contingency(present)
    name = list(first.labels)[int(differences.argmax())]
    return name, float(differences.max()), float(result.pvalue)


def compare_counts(first: list[int], second: list[int]) -> tuple[float, float]:
    """Returns the statistic of Kolmogorov and Smirnov of two histograms, and its p."""
    size = max(len(first), len(second))
    counts = np.array([row + [0] * (size - len(row)) for row in (first, second)])
    totals = counts.sum(axis=1, keepdims=True)
    cumulative = np.cumsum(counts, axis=1) / totals
    statistic = float(np.abs(cumulative[0] - cumulative[1]).max())
    effective = float(totals.prod() / totals.sum())
    return statistic, float(stats.kstwobign.sf(statistic * math.sqrt(effective)))


def compare_lengths(new: Profile, reference: Profile) -> tuple[float, float]:
    """Returns how far lengths are from those of a reference, and its p-value.

    The distance is Wasserstein's by the mean length of the reference: 0.2 if each row
    is a fifth longer. Kolmogorov's and Smirnov's statistic, which gives the p-value,
    would be 1 already if all rows had one token more.
    """
    counts = [np.array(each.lengths) for each in (new, reference)]
    tokens = [np.arange(len(each)) for each in counts]
    distance = stats.wasserstein_distance(*tokens, *counts)
    _, p = compare_counts(new.lengths, reference.lengths)
    return float(distance) / reference.mean_length, p
