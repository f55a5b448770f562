"""The verdicts of a run's components: their files, and why a model is refused.

DataGate writes a `DataVerdict`, the Evaluator a `Verdict`, ServingCheck a
`ServingReport`, OlderVersions `ModelAges`. AtomicPusher and Report set properties of
their artifacts.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable
from typing import Annotated, Any

import pydantic

from contracts import wording
from contracts.errors import named

VERDICT_FILE = "verdict.json"  # of DataGate and of the Evaluator
SERVING_CHECK_FILE = "serving_check.json"
# Keys of ServingCheck's latency with and without a text column.
ALL_TEXTS = "all texts"
WITHOUT_COLUMN = "without {}"
AGES_FILE = "ages.json"  # of OlderVersions
# Rows that ServingCheck keeps, for AtomicPusher to push with the model.
SERVING_EXAMPLES_FILE = "examples.json"
# Properties that TFX's Pusher sets on a PushedModel. Champion sets the destination on
# its Model artifact, too: the directory that serves the champion.
PUSHED = "pushed"
PUSHED_DESTINATION = "pushed_destination"
PUSHED_VERSION = "pushed_version"
# Property of a PushedModel that was not pushed: the version under which the same model
# was rolled back.
WITHDRAWN_VERSION = "withdrawn_version"
# Property of a PushedModel: JSON of `contracts.commits.Commits`.
COMMITS = "commits"
# Property of a report's page: the file that could not be written, and the error.
MISSING = "missing"

# How far beyond a bound a metric may be: 0.925 - 0.895 is above 0.03 by rounding.
TOLERANCE = 1e-9

_SIGNIFICANCE = 0.05  # of the tests of older versions

ALL_ROWS = "all rows"
NOT_BLESSED = named("the Evaluator did not bless the model", "E-not-blessed")


class DataVerdict(pydantic.BaseModel):
    """The verdict of DataGate.

    Attributes:
      card: Where the rows came from.
      profile: Rows, labels and lengths of each split.
      warnings: Problems that do not stop the run.
      notes: Harmless differences from the schema.
      problems: Why the data are refused; empty if they are accepted.
    """

    card: dict[str, Any]
    profile: dict[str, dict[str, Any]] = {}
    warnings: list[str] = []
    notes: list[str] = []
    problems: list[str] = []


# JSON has no NaN or infinity.
Number = Annotated[
    float,
    pydantic.PlainSerializer(lambda x: x if math.isfinite(x) else str(x)),
]


class MetricVerdict(pydantic.BaseModel):
    """A metric of the candidate, and its bounds.

    Attributes:
      metric: The metric's name.
      slice: The rows it was computed on.
      value: The candidate's value.
      champion: The champion's value; None if there is no champion.
      threshold: Lowest allowed value, or None.
      max_regression: Largest allowed difference below the champion, or None.
    """

    metric: str
    slice: str = ALL_ROWS
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
        if self.threshold is not None and not _reaches(self.value, self.threshold):
            value, threshold = _format(_reaches, self.value, self.threshold)
            failures.append(
                named(
                    f"{self.metric} is {value}, the threshold is {threshold}",
                    "E-below-threshold",
                )
            )
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


class SliceVerdict(MetricVerdict):
    """A metric with a threshold in a slice by a column.

    Attributes:
      feature: The column.
      feature_value: Its value in the rows of the slice.
    """

    feature: str
    feature_value: str


class LinearSlice(pydantic.BaseModel):
    """The metric of the task of a linear model and of the model in a slice.

    Attributes:
      feature: What the rows are sliced by.
      feature_value: Its value in the rows of the slice.
      rows: The rows of the slice.
      value: The model's value.
      linear: The linear model's value.
    """

    feature: str
    feature_value: str
    rows: int
    value: Number
    linear: Number


class LinearComparison(pydantic.BaseModel):
    """A linear model on words, trained on rows of `train`, and the model.

    Attributes:
      metric: The metric of the task.
      value: The model's value.
      metrics: The linear model's values by metric, on the same rows.
      rows: Rows that the linear model was trained on.
      paired: A test of both on the same rows, with its `sentence`; None if the rows
        have no unique ids.
      slices: Both models in the slices of the evaluation; empty without a test.
    """

    metric: str
    value: Number
    metrics: dict[str, Number]
    rows: int
    paired: dict[str, Any] | None
    slices: list[LinearSlice] = []

    @property
    def sentence(self) -> str:
        """The comparison in a sentence."""
        rows = wording.count(self.rows, "row")
        compared = f"compared with a linear model on words ({rows} of train)"
        if self.paired is not None:
            return f"{compared}, {self.paired['sentence']}"
        other = self.metrics[self.metric]
        return f"{compared}, {self.metric} is {self.value:.4f} instead of {other:.4f}"


class Override(pydantic.BaseModel):
    """The push of a refused model by a person.

    Attributes:
      version: The version of the pushed model.
      by: User and host.
      time: Time of the push, in ISO 8601.
      reason: The person's reason.
    """

    version: int
    by: str
    time: str
    reason: str


class Verdict(pydantic.BaseModel):
    """Why a model is blessed or not.

    Attributes:
      blessed: Whether it is blessed.
      splits: The evaluated splits.
      champion: Directory that serves the baseline; None without a baseline.
      metrics: All metrics on all rows, those with bounds first.
      slices: The metrics with a threshold in slices.
      linear_model: The comparison with a linear model; None without one.
      not_compared: Why the model was not compared with the champion; None if it was, or
        without a champion.
      paired: A test of the difference from the champion on the same rows, with its
        `sentence`; None without a comparison.
      significance: The model is refused if it is worse with a p-value below this; None
        in verdicts of older versions.
      worse: Why it is refused by a test of both models.
      override: The push of the refused model by a person; None if nobody pushed it.
    """

    blessed: bool
    splits: list[str]
    champion: str | None
    metrics: list[MetricVerdict]
    slices: list[SliceVerdict] = []
    linear_model: LinearComparison | None = None
    not_compared: str | None = None
    paired: dict[str, Any] | None = None
    significance: float | None = None
    worse: list[str] = []
    override: Override | None = None

    @property
    def failures(self) -> list[str]:
        """Why the model is refused, by thresholds and by comparisons."""
        bounds = [text for metric in self.metrics for text in metric.failures]
        slices = [
            f"in the slice {metric.slice}, by "
            f"evaluator.slice_thresholds.{metric.feature}: {text}"
            for metric in self.slices
            for text in metric.failures
        ]
        return [*bounds, *slices, *self.worse]

    @property
    def comparison(self) -> str:
        """The champion that the model was compared with, or why it was not compared."""
        if self.not_compared is not None:
            return f"{self.not_compared}; only absolute thresholds apply"
        if self.champion is None:
            return "no other version is served: only absolute thresholds apply"
        compared = f"compared with the champion {self.champion}"
        return (
            compared
            if self.paired is None
            else f"{compared}: {self.paired['sentence']}"
        )

    @property
    def summary(self) -> str:
        """The verdict in a sentence."""
        if self.blessed:
            return f"blessed; {self.comparison}"
        reasons = "; ".join(self.failures) or NOT_BLESSED
        return f"refused: {reasons}; {self.comparison}"

    def as_json(self) -> dict[str, Any]:
        """Returns the content of `verdict.json`: the summary first."""
        return {"summary": self.summary, **self.model_dump(mode="json")}


class WordChanges(pydantic.BaseModel):
    """How much predictions change if words for groups of people are swapped.

    Attributes:
      name: The list of `evaluator.group_words`.
      rows: The rows with a word of the list.
      versions: Their versions, one for each other group.
      changed: Rows with a version that has another prediction: another class, or a
        score that differs by more than `task.score.CHANGED_SHARE` of the range.
      interval: The 95 % interval of their share (Clopper and Pearson 1934).
      mean_change: Mean absolute change, over the versions, of the probability of the
        class that is predicted for the row; in a regression, of the score.
    """

    name: str
    rows: int
    versions: int
    changed: int
    interval: tuple[float, float]
    mean_change: float

    @property
    def sentence(self) -> str:
        """The change in a sentence."""
        share, low, high = (
            f"{100 * value:.1f} %"
            for value in (self.changed / self.rows, *self.interval)
        )
        return (
            f"the prediction changes in {self.changed:,} of {self.rows:,} rows "
            f"({share}, 95 % interval {low} to {high}) if words of "
            f"evaluator.group_words.{self.name} are swapped"
        )

    def find_excess(self, most: float) -> str | None:
        """Returns why more rows change than noise explains; None if they may not.

        Args:
          most: `evaluator.max_changed_by_words`.
        """
        if self.interval[0] <= most:
            return None
        return named(
            f"{self.sentence}, but evaluator.max_changed_by_words allows "
            f"{100 * most:g} %; the report has the rows that change most: add rows to "
            "train whose label does not depend on these words, or raise the setting if "
            "it may",
            "E-changed-by-words",
        )


class Estimate(pydantic.BaseModel):
    """A metric of a sample of rows.

    Attributes:
      value: Its value.
      interval: Its 95 % interval; None if it is undefined.
    """

    value: Number
    interval: tuple[float, float] | None = None


class Evaluation(pydantic.BaseModel):
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


class OlderVersion(pydantic.BaseModel):
    """An older pushed version of the model, on the rows of a run.

    Attributes:
      version: Its number.
      pushed: When it was pushed, in ISO 8601; None if that is unknown.
      age_days: Its age at the measurement; None if that is unknown.
      data: The data that it was trained on; empty if that is not recorded.
      measured: The metric of the task; None if it was not measured.
      paired: A test of it and the new model on the same rows, with its `sentence`; None
        if it was not measured, or if the rows have no unique ids.
      problem: Why it was not measured; empty if it was.
    """

    version: str
    pushed: str | None = None
    age_days: float | None = None
    data: str = ""
    measured: Estimate | None = None
    paired: dict[str, Any] | None = None
    problem: str = ""

    def compared(self, name: str) -> float:
        """Returns a number of `paired`. JSON has NaN as a string."""
        assert self.paired is not None
        return float(self.paired[name])

    @property
    def age(self) -> str:
        """The age in words."""
        if self.age_days is None:
            return "of unknown age"
        if self.age_days < 2:
            return f"{wording.count(24 * self.age_days, 'hour')} old"
        return f"{wording.count(self.age_days, 'day')} old"

    @property
    def name(self) -> str:
        """The version with its age and data."""
        data = f", trained on {self.data}" if self.data else ""
        return f"version {self.version} ({self.age}{data})"

    @property
    def sentence(self) -> str:
        """The new model compared with it, in a sentence."""
        if self.problem:
            return f"not compared with {self.name}: {self.problem}"
        if self.paired is not None:
            return f"compared with {self.name}, {self.paired['sentence']}"
        assert self.measured is not None
        return f"{self.name} has {self.measured.value:.4f}"


class ModelAges(pydantic.BaseModel):
    """How a model ages: older versions and the new model on the same rows.

    Attributes:
      metric: The metric of the task.
      split: The evaluated split.
      rows: The rows that were predicted, all of the split or a sample.
      measured: The metric of the new model on these rows; None without older versions,
        or if the rows have no unique ids.
      versions: The newest first.
    """

    metric: str
    split: str
    rows: int = 0
    measured: Estimate | None = None
    versions: list[OlderVersion] = []

    @property
    def warnings(self) -> list[str]:
        """The versions that are better than the new model."""
        return [
            f"{version.name} is better than the new model: {self._describe(version)}; "
            "check the data that were added since, and serve the older one with "
            "`rollback` if the new model was pushed"
            for version in self._differing(-1)
        ]

    @property
    def conclusion(self) -> str:
        """How the model ages, in a sentence; empty without older versions."""
        compared = [version for version in self.versions if version.paired]
        if not compared:
            return "; ".join(version.sentence for version in self.versions)
        if self.warnings:
            return "newer data did not help: " + "; ".join(self.warnings)
        if aged := self._differing(1):
            return (
                f"{aged[0].name} is worse: {self._describe(aged[0])}; the model ages, "
                "if the settings are the same"
            )
        return (
            f"no sign of ageing: {self.metric} of {compared[-1].name} and of newer "
            f"versions differs from the new model's by what may be noise "
            f"({wording.count(self.rows, 'row')} of {self.split}); retraining may be "
            "unnecessary"
        )

    def as_json(self) -> dict[str, Any]:
        """Returns the content of `ages.json`: the conclusion first."""
        return {"summary": self.conclusion, **self.model_dump(mode="json")}

    def _differing(self, sign: int) -> list[OlderVersion]:
        """Returns the versions that are worse (1) or better (-1) than the new model."""
        return [
            version
            for version in self.versions
            if version.paired
            and sign * version.compared("difference") > 0  # False for NaN
            and self._p_value(version) < _SIGNIFICANCE
        ]

    def _p_value(self, version: OlderVersion) -> float:
        """Returns the p-value, multiplied by the number of tests (Bonferroni)."""
        tests = sum(version.paired is not None for version in self.versions)
        return min(1.0, tests * version.compared("p_value"))

    def _describe(self, version: OlderVersion) -> str:
        a, b = version.compared("a"), version.compared("b")
        return (
            f"{self.metric} is {a:.3f} instead of {b:.3f} on {self.rows:,} rows of "
            f"{self.split} (p = {self._p_value(version):.2g})"
        )


class ServingReport(pydantic.BaseModel, frozen=True):
    """The result of ServingCheck.

    Attributes:
      reasons: Why the model is not blessed; empty if it is blessed.
      rows: Number of compared rows.
      max_skew: Largest difference from the expected values by signature, relative for
        values above 1; None if nothing was compared.
      latency_ms: `p50` and `p99` of a request with one row, in milliseconds; None if
        the model failed before.
      rows_per_second: Throughput of one request with all rows that are sent as text;
        None if the model failed before.
      latency_compared_ms: Median of a request with one row, in milliseconds, of `model`
        and `champion`, which were timed in turn; empty if they were not.
      latency_of_columns_ms: Median of a request with one row of a pair, in
        milliseconds, by `ALL_TEXTS` and, for each column, by `WITHOUT_COLUMN`, in turn;
        empty if it was not timed.
      not_compared: Why the champion was not timed, if there is one and a limit; else
        None.
      group_words: What swapped words change, by list; empty if nothing was swapped, or
        if the model failed before.
      not_swapped: Why no words were swapped; None if they were.
      warnings: What the model is not refused for, but should be known.
      load_seconds: Time to load the model; None if the model failed before.
      peak_memory_bytes: Highest resident memory, TensorFlow included.
      tf_serving_version: The TensorFlow Serving version of the request.
      text_version: The tensorflow-text version in that TensorFlow Serving.
    """

    reasons: list[str]
    rows: int
    max_skew: dict[str, float | None]
    latency_ms: dict[str, float] | None
    rows_per_second: float | None
    latency_compared_ms: dict[str, float] = {}
    latency_of_columns_ms: dict[str, float] = {}
    not_compared: str | None = None
    group_words: list[WordChanges] = []
    not_swapped: str | None = None
    warnings: list[str] = []
    load_seconds: float | None
    peak_memory_bytes: int
    tf_serving_version: str
    text_version: str

    @pydantic.computed_field  # type: ignore[prop-decorator]
    @property
    def blessed(self) -> bool:
        """Whether the model may be served."""
        return not self.reasons


def lowest(bound: float) -> float:
    """Returns the lowest value that a lower bound allows."""
    return bound - TOLERANCE


def describe_slice(feature: str, value: str, rows: int) -> str:
    """Returns a slice in words, such as "region north (41 rows)"."""
    return f"{feature} {value} ({wording.count(rows, 'row')})"


def refusal(
    failures: Iterable[str], serving_reasons: Iterable[str], withdrawn: str
) -> list[str]:
    """Returns why a model was not pushed.

    Args:
      failures: The Evaluator's reasons.
      serving_reasons: Why ServingCheck refused the model.
      withdrawn: The version under which the same model was rolled back, or empty.
    """
    reasons = [*failures, *serving_reasons]
    if withdrawn:
        reasons.append(named(rolled_back(withdrawn), "E-rolled-back"))
    return reasons or [NOT_BLESSED]


def rolled_back(version: str | int) -> str:
    """Returns why a model that was rolled back is not pushed again."""
    return (
        f"the model is version {version}, which was rolled back; "
        f"`rollback {version}` serves it again"
    )


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
