"""A score for each row: a regression."""

from __future__ import annotations

import dataclasses
from collections.abc import Collection, Mapping
from typing import Any

import numpy as np

from contracts import metrics
from contracts.metrics import Threshold
from contracts.task.label_kind import LabelKind, describe_number

# The share of the range by which a score must change to be another prediction.
CHANGED_SHARE = 0.1
_BINS = 100


@dataclasses.dataclass(frozen=True)
class Score(LabelKind):
    """Each row has a score.

    Attributes:
      label_range: The lowest and the highest score.
    """

    label_range: tuple[float, float] = dataclasses.field(kw_only=True)

    noun = "score"
    dtype = "float32"
    output = "score"
    is_scaled = True
    drift_test = "histogram"
    sections = frozenset({"regression"})
    baseline = "mean score"
    problem_type = "regression"

    @property
    def metric_kind(self) -> metrics.Kind:
        """`regression`."""
        return "regression"

    @property
    def outputs(self) -> int:
        """The score."""
        return 1

    @property
    def low(self) -> float:
        """The lowest score."""
        return self.label_range[0]

    @property
    def high(self) -> float:
        """The highest score."""
        return self.label_range[1]

    @property
    def score_range(self) -> float:
        """The highest minus the lowest score."""
        return self.high - self.low

    def describe(self, label: Any) -> str:
        """Returns a score with its digits."""
        return describe_number(label)

    def parse_description(self, text: str) -> float:
        """Returns a score."""
        return float(text)

    def describe_constant(self, label: Any, most: int) -> tuple[str, str]:
        """Describes the score of all rows."""
        return f"score {self.describe(label)}", "other scores"

    def describe_purpose(self, texts: str) -> str:
        """Returns what a model predicts, after "to"."""
        return f"predict a score of {texts} from {self.low:g} to {self.high:g}"

    def describe_outputs(self) -> str:
        """Returns what a model predicts, after "predicts"."""
        return "a score"

    def allows(self, number: float) -> bool:
        """Returns whether a score is in the range, in float32 as in Examples."""
        if super().allows(number):
            return True
        with np.errstate(over="ignore"):
            low, high, number = np.array(
                [self.low, self.high, number], np.float32
            ).tolist()
        return low <= number <= high

    def is_value(self, text: str) -> bool:
        """Returns False for -1, a missing label, unless it is in the range."""
        return text == "-1" and self.allows(-1)

    def class_ids(self, label: Any) -> list[int]:
        """All scores count as one class."""
        return [0]

    def count(self, labels: np.ndarray) -> np.ndarray:
        """Returns the number of rows, int64[1]."""
        return np.array([len(labels)])

    def histogram(self, labels: np.ndarray) -> dict[str, int]:
        """Returns the rows by the lower edge of a hundredth of the range."""
        counts, edges = np.histogram(labels, _BINS, (self.low, self.high))
        names = map(describe_number, edges[:-1].tolist())
        return dict(zip(names, counts.tolist(), strict=True))

    def slice_keys(self, label: Any, counted: Collection[float]) -> list[float]:
        """Returns one of two keys: more do not matter for a correlation."""
        return [min(counted)] if label not in counted and len(counted) == 2 else [label]

    def slice_counts(self, rows_by_key: Mapping[float, int]) -> np.ndarray:
        """Returns the rows of each key."""
        return np.array(list(rows_by_key.values()))

    def predict(self, outputs: np.ndarray, threshold: Threshold = None) -> np.ndarray:
        """Returns the scores."""
        return outputs

    def from_logits(self, logits: np.ndarray, temperature: float) -> np.ndarray:
        """Returns scores float[rows]."""
        return logits[:, 0]

    def from_outputs(self, outputs: np.ndarray) -> np.ndarray:
        """Returns scores float[rows]."""
        return outputs[:, 0]

    def compare(
        self, before: np.ndarray, after: np.ndarray, threshold: Threshold
    ) -> tuple[np.ndarray, np.ndarray]:
        """Returns changes, and whether they exceed `CHANGED_SHARE` of the range."""
        change = np.abs(after - before)
        return change, change > CHANGED_SHARE * self.score_range

    def are_different(self, predicted: np.ndarray, change: np.ndarray) -> np.ndarray:
        """Returns whether scores differ by more than `CHANGED_SHARE` of the range."""
        return change > CHANGED_SHARE * self.score_range

    def name_weights(self, weights: list[float]) -> dict[str, float]:
        """Scores have no names."""
        return {}

    def group_ids(self, labels: np.ndarray) -> np.ndarray:
        """All scores have one weight."""
        return np.zeros(len(labels), np.int64)
