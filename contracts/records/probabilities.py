"""Temperature and thresholds of a model, and their effects."""

from __future__ import annotations

import math
from typing import Annotated

import pydantic

from contracts.records import Record
from contracts.task.decision import describe_threshold

# NaN is null in JSON, and is read back as None.
Number = Annotated[
    float | None,
    pydantic.PlainSerializer(
        lambda x: x if x is not None and math.isfinite(x) else None, when_used="json"
    ),
]


class CalibrationBin(Record):
    """The rows whose highest probability is in an interval.

    With several labels, a row counts for each label whose probability is in it.

    Attributes:
      low: Its lower end.
      high: Its upper end.
      rows: How many rows.
      confidence: Mean of these probabilities; NaN without rows.
      accuracy: Share of them that are predicted correctly, or with several labels,
        that have the label; NaN without rows.
    """

    low: float
    high: float
    rows: int
    confidence: float
    accuracy: float


class Calibration(Record):
    """How well probabilities fit the labels.

    Attributes:
      expected_calibration_error: The mean difference of confidence and accuracy of
        `CalibrationBin`, over ten bins of equal width (Guo et al. 2017, section 2).
      brier: The mean sum, over the classes, of the squared differences of probability
        and label (Brier 1950); of two classes twice the square of the positive one's.
      loss: The mean cross-entropy.
    """

    expected_calibration_error: Number
    brier: Number
    loss: Number


class TemperatureScaling(Record):
    """The temperature of the exported model, and what it changes.

    Attributes:
      temperature: The divisor of the logits.
      split: The split that it was fitted on.
      before: The calibration of each split without it.
      after: The calibration of each split with it.
    """

    temperature: float
    split: str
    before: dict[str, Calibration]
    after: dict[str, Calibration]


class DecisionPoint(Record):
    """A threshold and its metrics on some rows.

    Attributes:
      threshold: The positive class is predicted from this probability on; never if it
        is above 1, always if it is 0.
      value: The value that the rule compares: a metric, the mean cost of a row, or the
        recall.
      metrics: Metrics of the positive class, and accuracy, by name.
    """

    threshold: float
    value: Number
    metrics: dict[str, Number]


class Decision(Record):
    """The threshold of the exported model, and what it leads to.

    Attributes:
      by: What it is chosen by, in words.
      value: The name of the value that it is chosen by.
      threshold: The positive class is predicted from this probability on.
      split: The split that it was chosen on.
      default: What 0.5 leads to, by split.
      chosen: What the threshold leads to, by split.
      curve: Thresholds on that split, in their order; empty for one label of several.
    """

    by: str
    value: str
    threshold: float
    split: str
    default: dict[str, DecisionPoint]
    chosen: dict[str, DecisionPoint]
    curve: list[DecisionPoint] = []

    @property
    def rule(self) -> str:
        """When the positive class is predicted, in words."""
        return describe_threshold(self.threshold)


class LabelDecisions(Record):
    """The threshold of each of several labels, and what it leads to.

    Attributes:
      by: What they are chosen by, in words.
      split: The split that they were chosen on.
      threshold: The thresholds, in the order of the labels.
      labels: The decision on each label, without a curve.
      notes: The labels with few rows, and those that do not reach the least
        precision, in sentences without a full stop.
    """

    by: str
    split: str
    threshold: list[float]
    labels: dict[str, Decision]
    notes: list[str] = []

    @property
    def summary(self) -> str:
        """What the thresholds are chosen by, in words."""
        kinds = {*self.threshold}
        rule = "Each label has a threshold"
        if len(kinds) == 1:
            rule = f"All labels are {describe_threshold(kinds.pop())}"
        return f"{rule}: {self.by} on {self.split}"
