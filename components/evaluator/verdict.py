"""The result of an evaluation, as a small JSON file for people."""

from __future__ import annotations

import base64
import json
import math
from typing import Annotated, Any

import pydantic
import tensorflow_model_analysis as tfma
from tfx.utils import io_utils

from components.evaluator import slices
from components.evaluator.bounds import Bounds
from modules import file_format, uris

VERDICT_FILE = "verdict.json"
ALL_ROWS = "all rows"

# JSON has no NaN or infinity.
_Number = Annotated[
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
    value: _Number
    champion: _Number | None = None
    threshold: _Number | None = None
    max_regression: _Number | None = None

    @property
    def is_bounded(self) -> bool:
        """Whether the metric has a bound."""
        return self.threshold is not None or self.max_regression is not None

    @pydantic.computed_field  # type: ignore[prop-decorator]
    @property
    def failures(self) -> list[str]:
        """The bounds that the metric violates, in words."""
        failures = []
        # Not `<`: NaN must fail, and TFMA allows the bound itself.
        if self.threshold is not None and not self.value >= self.threshold:
            failures.append(
                f"{self.metric} is {self.value:.4f}, the threshold is "
                f"{self.threshold:.4f}"
            )
        if (
            self.max_regression is not None
            and self.champion is not None
            and not self.value - self.champion >= -self.max_regression
        ):
            failures.append(
                f"{self.metric} is {self.value:.4f}, more than "
                f"{self.max_regression:.4f} below the champion's {self.champion:.4f}"
            )
        return failures


class Override(pydantic.BaseModel):
    """Who pushed a refused model all the same.

    Attributes:
      version: The version that it was pushed as.
      by: User and host.
      time: When, in ISO 8601.
      reason: Why.
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
      champion: Directory that serves the baseline; None if there was no baseline.
      metrics: All metrics on all rows, those with bounds first.
      not_compared: Why the model was not compared with the champion; None if it was,
        or if there is no champion.
      paired: A test of the difference from the champion on the same rows, with its
        `sentence`; None if there is no comparison. The bounds alone decide.
      override: Who pushed the model although it is refused; None if no one did.
    """

    blessed: bool
    splits: list[str]
    champion: str | None
    metrics: list[MetricVerdict]
    not_compared: str | None = None
    paired: dict[str, Any] | None = None
    override: Override | None = None

    @property
    def failures(self) -> list[str]:
        """The bounds that the model violates, in words."""
        return [text for metric in self.metrics for text in metric.failures]

    @property
    def comparison(self) -> str:
        """What the model was compared with."""
        if self.not_compared is not None:
            return f"{self.not_compared}; absolute thresholds alone"
        if self.champion is None:
            return "no other version is served: absolute thresholds alone"
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
        reasons = "; ".join(self.failures) or "the Evaluator did not bless the model"
        return f"refused: {reasons}; {self.comparison}"


def read_metrics(
    evaluation: str, bounds: Bounds, *, has_champion: bool
) -> list[MetricVerdict]:
    """Reads the metrics on all rows, those with bounds first.

    Args:
      evaluation: Directory of TFMA's results.
      bounds: The bounds of the metrics.
      has_champion: Whether there was a baseline. TFMA names the models only then.
    """
    candidate = _read_overall(evaluation, tfma.CANDIDATE_KEY if has_champion else "")
    champion = _read_overall(evaluation, tfma.BASELINE_KEY) if has_champion else {}
    champion_values = slices.numbers(champion)
    metrics = [
        MetricVerdict(
            metric=name,
            value=value,
            champion=champion_values.get(name),
            threshold=bounds.thresholds.get(name),
            max_regression=bounds.max_regression.get(name),
        )
        for name, value in slices.numbers(candidate).items()
    ]
    return sorted(metrics, key=lambda metric: not metric.is_bounded)


def read_paired_test(evaluation: str, *, has_champion: bool) -> dict[str, Any] | None:
    """Reads the test of both models: the metric that is JSON, not a number.

    Args:
      evaluation: Directory of TFMA's results.
      has_champion: Whether there was a baseline.
    """
    if not has_champion:
        return None
    for value in _read_overall(evaluation, tfma.CANDIDATE_KEY).values():
        if "bytesValue" in value:
            return json.loads(base64.b64decode(value["bytesValue"]))
    return None


def write_verdict(verdict: Verdict, directory: str) -> None:
    """Writes a verdict as JSON."""
    content = {"summary": verdict.summary, **verdict.model_dump(mode="json")}
    text = json.dumps(file_format.with_format(content), indent=1, allow_nan=False)
    io_utils.write_string_file(uris.join(directory, VERDICT_FILE), text)


def read_verdict(directory: str) -> Verdict:
    """Reads what `write_verdict` wrote."""
    path = uris.join(directory, VERDICT_FILE)
    text = io_utils.read_string_file(path)
    return Verdict.model_validate(file_format.parse(text, path))


def _read_overall(evaluation: str, model: str) -> slices.Values:
    return slices.read_values(evaluation, model)[()]
