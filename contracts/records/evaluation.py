"""The verdict on a model, which the Evaluator writes, and its metrics."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Annotated, Any

import pydantic

from contracts import wording
from contracts.errors import named
from contracts.metrics import CONFIDENCE
from contracts.records import Record, RecordFile
from contracts.verdicts import NOT_BLESSED

# How far beyond a bound a metric may be: 0.925 - 0.895 is above 0.03 by rounding.
TOLERANCE = 1e-9

EXAMPLE_COUNT = "example_count"  # TFMA's name of the number of rows, not a metric

# JSON has no NaN or infinity.
Number = Annotated[
    float,
    pydantic.PlainSerializer(lambda x: x if math.isfinite(x) else str(x)),
]


class Estimate(Record):
    """A metric of a sample of rows.

    Attributes:
      interval: Its 95 % interval; None if it is undefined.
    """

    value: Number
    interval: tuple[float, float] | None = None

    @classmethod
    def of(cls, value: float, interval: tuple[float, float]) -> Estimate:
        """Returns an estimate; an interval of NaN is undefined."""
        is_defined = all(map(math.isfinite, interval))
        return cls(value=value, interval=interval if is_defined else None)


class PairedTest(Record, extra="ignore"):
    """A test whether two models differ in a metric by more than noise.

    Attributes:
      metric: The metric's name.
      rows: The rows that both models predicted.
      a: The metric of the first model.
      b: The metric of the second.
      difference: `b - a`.
      low: Lower end of the difference's 95 % interval.
      high: Upper end of that interval.
      p_value: Probability of a difference this large if the models are equally good.
      method: `McNemar` (exact, for accuracy) or `paired bootstrap`.
      only_a_right: Rows that only the first model predicts right; None for scores.
      only_b_right: Rows that only the second model predicts right; None for scores.
    """

    metric: str
    rows: int
    a: Number
    b: Number
    difference: Number
    low: Number
    high: Number
    p_value: Number
    method: str
    only_a_right: int | None = None
    only_b_right: int | None = None

    @property
    def may_be_noise(self) -> bool:
        """Whether the difference may be noise; True if the metric is NaN."""
        return not self.p_value < 1 - CONFIDENCE

    @property
    def estimate(self) -> Estimate:
        """The difference with its interval."""
        return Estimate.of(self.difference, (self.low, self.high))

    @pydantic.computed_field  # type: ignore[prop-decorator]
    @property
    def sentence(self) -> str:
        """The test in a sentence about the second model."""
        rows = wording.count(self.rows, "row")
        if not math.isfinite(self.difference):
            return f"{self.metric} cannot be compared: it is NaN ({rows})"
        if self.difference == 0 and self.p_value == 1:
            return f"{self.metric} is equal ({rows})"
        direction = "lower" if self.difference < 0 else "higher"
        verdict = "may be" if self.may_be_noise else "is more than"
        p_value = "p < 0.001" if self.p_value < 0.001 else f"p = {self.p_value:.2g}"
        return (
            f"{self.metric} is {abs(self.difference):.3f} {direction} (95 % interval "
            f"{self.low:.3f} to {self.high:.3f}); the difference {verdict} noise "
            f"({p_value}, {self.method}, {rows})"
        )


class MetricVerdict(Record, extra="ignore"):
    """A metric of the candidate on some rows, and its bounds.

    Attributes:
      metric: The metric's name.
      value: The candidate's value.
      champion: The champion's value; None if there is no champion.
      threshold: Lowest allowed value, or None.
      max_regression: Largest allowed difference below the champion, or None.
    """

    metric: str
    value: Number
    champion: Number | None = None
    threshold: Number | None = None
    max_regression: Number | None = None

    @property
    def is_bounded(self) -> bool:
        """Whether the metric has a bound."""
        return self.threshold is not None or self.max_regression is not None

    @property
    def ignores_champion(self) -> bool:
        """Whether the metric of the champion is NaN, so that it is no bound."""
        if self.max_regression is None or self.champion is None:
            return False
        return math.isnan(self.champion)

    @pydantic.computed_field  # type: ignore[prop-decorator]
    @property
    def failures(self) -> list[str]:
        """The bounds that the metric violates, in words. NaN violates every bound."""
        failures = []
        if self.threshold is not None and (
            reason := find_shortfall(self.metric, self.value, self.threshold)
        ):
            failures.append(named(reason, "E-below-threshold"))
        if self.max_regression is None:
            return failures
        if self.champion is None:
            if math.isnan(self.value) and not failures:
                failures.append(named(f"{self.metric} is nan", "E-metric-nan"))
            return failures
        compared = (self.value, self.champion, self.max_regression)
        if math.isnan(self.value):
            failures.append(
                named(
                    f"{self.metric} is nan: it cannot be compared with the champion's "
                    f"{self.champion:.4f}",
                    "E-metric-nan",
                )
            )
        elif not self.ignores_champion and not _keeps_up(*compared):
            value, champion, drop = _format(_keeps_up, *compared)
            failures.append(
                named(
                    f"{self.metric} is {value}, more than {drop} below the champion's "
                    f"{champion}",
                    "E-worse-than-champion",
                )
            )
        return failures


class Slice(Record, extra="ignore"):
    """Metrics of a part of the evaluated split.

    Attributes:
      feature: What the split is divided by.
      value: The value of this part.
      rows: How many rows it has.
      metrics: Its metrics by name; those that are not finite are left out.
      champion: The champion's metrics by name; empty if there is no champion.
    """

    feature: str
    value: str
    rows: int
    metrics: dict[str, float]
    champion: dict[str, float]

    @property
    def name(self) -> str:
        """See `describe_slice`."""
        return describe_slice(self.feature, self.value, self.rows)


class Override(Record):
    """The push of a refused model by a person.

    Attributes:
      by: User and host.
      time: Time of the push, in ISO 8601.
      reason: The person's reason.
    """

    version: int
    by: str
    time: str
    reason: str


class Verdict(RecordFile):
    """Why a model is blessed or not.

    Attributes:
      champion: Directory that serves the baseline; None without a baseline.
      metrics: All metrics on all rows, those with bounds first.
      slices: The slices, in the order of their feature and value.
      not_compared: Why the model was not compared with the champion; None if it was, or
        without a champion.
      paired: A test of the champion and the model on the same rows; None without a
        comparison.
      significance: The model is refused if it is worse with a p-value below this; None
        in verdicts of older versions.
      worse: Why it is refused by a test of both models.
      override: The push of the refused model by a person; None if nobody pushed it.
    """

    FILE = "verdict.json"

    blessed: bool
    splits: list[str]
    champion: str | None
    metrics: list[MetricVerdict]
    slices: list[Slice] = []
    not_compared: str | None = None
    paired: PairedTest | None = None
    significance: float | None = None
    worse: list[str] = []
    override: Override | None = None

    @pydantic.field_validator("slices", mode="before")
    @classmethod
    def _drop_those_of_1_0(cls, slices: Any) -> Any:
        """In 1.0.0, there was one entry for each metric with a threshold."""
        return [part for part in slices if "metric" not in part]

    @property
    def failures(self) -> list[str]:
        """Why the model is refused, by thresholds and by comparisons."""
        bounds = [text for metric in self.metrics for text in metric.failures]
        return [*bounds, *self.worse]

    @property
    def comparison(self) -> str:
        """The champion that the model was compared with, or why it was not compared."""
        if self.not_compared is not None:
            return f"{self.not_compared}; only absolute thresholds apply"
        if self.champion is None:
            return "no other version is served: only absolute thresholds apply"
        compared = f"compared with the champion {self.champion}"
        return (
            compared if self.paired is None else f"{compared}: {self.paired.sentence}"
        )

    @property
    def summary(self) -> str:
        """The verdict in a sentence."""
        if self.blessed:
            return f"blessed; {self.comparison}"
        reasons = "; ".join(self.failures) or NOT_BLESSED
        return f"refused: {reasons}; {self.comparison}"

    def as_json(self) -> dict[str, Any]:
        """Returns the content of the file: the summary first."""
        return {"summary": self.summary, **super().as_json()}


class Evaluation(Record):
    """The evaluation of a pushed version, and the data that it was trained on.

    Attributes:
      split: The split that decided.
      rows: Its rows.
      metric: The metric of the task.
      metrics: The metrics on all rows by name.
      data: Name of the data: the last part of their source, such as a span's directory.
      data_version: Their hash.
      splitting: The `splitting` of their card; None if their splits were not made here.
    """

    split: str
    rows: int
    metric: str
    metrics: dict[str, Estimate]
    data: str
    data_version: str
    splitting: dict[str, Any] | None = None


def lowest(bound: float) -> float:
    """Returns the lowest value that a lower bound allows."""
    return bound - TOLERANCE


def find_shortfall(metric: str, value: float, threshold: float) -> str:
    """Returns why a metric does not reach a threshold; empty if it does. NaN does not.

    Args:
      metric: Its name.
      value: Its value.
      threshold: The lowest allowed value.
    """
    if _reaches(value, threshold):
        return ""
    shown, bound = _format(_reaches, value, threshold)
    return f"{metric} is {shown}, the threshold is {bound}"


def describe_slice(feature: str, value: str, rows: int) -> str:
    """Returns a slice in words, such as "region north (41 rows)"."""
    return f"{feature} {value} ({wording.count(rows, 'row')})"


def _reaches(value: float, threshold: float) -> bool:
    return value >= lowest(threshold)  # False for NaN, as in TFMA


def _keeps_up(value: float, champion: float, max_regression: float) -> bool:
    return value - champion >= lowest(-max_regression)


def _format(rule: Callable[..., bool], *values: float) -> list[str]:
    """Returns values that violate a rule, with as many digits as show it."""
    for places in range(4, 17):
        texts = [f"{value:.{places}f}" for value in values]
        if not rule(*map(float, texts)):
            break
    return texts
