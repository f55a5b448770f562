"""The verdict on the data, which DataGate writes."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from contracts.records import Record, RecordFile


class Lengths(Record):
    """Tokens of the rows of a split before truncation, with the special tokens.

    Attributes:
      edges: Edges of the histogram's bins, one more than `counts`.
      counts: Rows in each bin.
      cut_rows: Rows that truncation cut.
      cut_tokens: Tokens that it cut off.
      unknown_share: Share of the tokens that are `[UNK]`.
      tokens_per_word: Tokens of a word on average.
    """

    edges: list[float]
    counts: list[int]
    cut_rows: int
    cut_tokens: int
    unknown_share: float
    tokens_per_word: float


class SplitProfile(Record):
    """The rows of a split.

    Attributes:
      rows: How many rows it has.
      labels: Rows by class; in a regression by the lower edge of a hundredth of the
        range. With several labels, a row counts for each of its own.
      tokens: Some percentiles of the lengths.
      lengths: The lengths.
    """

    rows: int
    labels: dict[str, int]
    tokens: dict[str, int]
    lengths: Lengths


class DataVerdict(RecordFile):
    """The verdict of DataGate.

    Attributes:
      card: Where the rows came from.
      profile: The rows of each split.
      warnings: Problems that do not stop the run.
      notes: Harmless differences from the schema.
      problems: Why the data are refused; empty if they are accepted.
    """

    FILE = "verdict.json"

    card: dict[str, Any]
    profile: dict[str, SplitProfile] = {}
    warnings: list[str] = []
    notes: list[str] = []
    problems: list[str] = []

    def labels(self, split: str) -> Mapping[str, int]:
        """Returns the rows of a split by class; empty if they are unknown."""
        return self.profile[split].labels if split in self.profile else {}
