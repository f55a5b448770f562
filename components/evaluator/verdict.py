"""What an evaluation came to, as a small file that people can read."""

from __future__ import annotations

import dataclasses
import json
import math
import os
from typing import Any

import tensorflow_model_analysis as tfma
from tfx.utils import io_utils

VERDICT_FILE = "verdict.json"
ALL_ROWS = "all rows"
_DIFFERENCE = "_diff"
_NUMBERS = ("value", "champion", "threshold", "max_regression")


@dataclasses.dataclass(frozen=True)
class MetricVerdict:
    """One metric of the candidate, and what was asked of it.

    Attributes:
      metric: Its name.
      slice: The rows that it was measured on.
      value: The candidate's.
      champion: The champion's; None where there is no champion.
      threshold: Lowest value allowed, or None.
      max_regression: Largest fall below the champion allowed, or None.
    """

    metric: str
    slice: str
    value: float
    champion: float | None
    threshold: float | None
    max_regression: float | None

    @property
    def is_bounded(self) -> bool:
        """Whether anything is asked of it."""
        return self.threshold is not None or self.max_regression is not None

    @property
    def failures(self) -> list[str]:
        """What the metric falls short of, in words."""
        found = []
        # Not `<`: NaN must fail, and TFMA allows the bound itself.
        if self.threshold is not None and not self.value >= self.threshold:
            found.append(
                f"{self.metric} is {self.value:.4f}, the threshold is "
                f"{self.threshold:.4f}"
            )
        if (
            self.max_regression is not None
            and self.champion is not None
            and not self.value - self.champion >= -self.max_regression
        ):
            found.append(
                f"{self.metric} is {self.value:.4f}, more than "
                f"{self.max_regression:.4f} below the champion's {self.champion:.4f}"
            )
        return found


@dataclasses.dataclass(frozen=True)
class Verdict:
    """Why a model was blessed or not.

    Attributes:
      blessed: Whether it was.
      splits: What it was measured on.
      champion: Where the model that it was compared with is served from; None on the
        first run, when there is none.
      metrics: All that was measured on all rows, the bounded ones first.
      not_compared: Why the model was not compared with the champion; None where it
        was, or where there is no champion.
    """

    blessed: bool
    splits: list[str]
    champion: str | None
    metrics: list[MetricVerdict]
    not_compared: str | None = None

    @property
    def failures(self) -> list[str]:
        """What the model falls short of, in words."""
        return [text for metric in self.metrics for text in metric.failures]

    @property
    def comparison(self) -> str:
        """What the model was compared with."""
        if self.not_compared is not None:
            return f"{self.not_compared}: absolute thresholds alone"
        if self.champion is None:
            return "no champion yet: absolute thresholds alone"
        return f"compared with the champion {self.champion}"

    @property
    def summary(self) -> str:
        """The verdict in a sentence."""
        if self.blessed:
            return f"blessed; {self.comparison}"
        reasons = "; ".join(self.failures) or "the Evaluator did not bless the model"
        return f"refused: {reasons}; {self.comparison}"


def read_evaluation(
    directory: str,
    *,
    blessed: bool,
    splits: list[str],
    champion: str | None,
    not_compared: str | None,
    thresholds: dict[str, float],
    max_regression: dict[str, float],
) -> Verdict:
    """Makes a verdict of TFMA's results.

    Args:
      directory: Of the `ModelEvaluation` artifact.
      blessed: TFMA's decision.
      splits: What was evaluated.
      champion: Where the baseline is served from, if there was one. TFMA names the
        models only then.
      not_compared: Why there was no baseline though there is a champion.
      thresholds: Lowest values.
      max_regression: How far below the champion each may be.
    """
    candidate = _overall(directory, tfma.CANDIDATE_KEY if champion else "")
    other = _overall(directory, tfma.BASELINE_KEY) if champion else {}
    metrics = [
        MetricVerdict(
            metric=name,
            slice=ALL_ROWS,
            value=value,
            champion=other.get(name),
            threshold=thresholds.get(name),
            max_regression=max_regression.get(name),
        )
        for name, value in candidate.items()
    ]
    metrics.sort(key=lambda metric: not metric.is_bounded)
    return Verdict(blessed, splits, champion, metrics, not_compared)


def write_verdict(verdict: Verdict, directory: str) -> None:
    """Writes a verdict as JSON."""
    metrics = [_describe(metric) for metric in verdict.metrics]
    content: dict[str, Any] = {
        "summary": verdict.summary,
        **dataclasses.asdict(verdict),
        "metrics": metrics,
    }
    text = json.dumps(content, indent=1, allow_nan=False)
    io_utils.write_string_file(os.path.join(directory, VERDICT_FILE), text)


def read_verdict(directory: str) -> Verdict:
    """Reads what `write_verdict` wrote."""
    content = json.loads(
        io_utils.read_string_file(os.path.join(directory, VERDICT_FILE))
    )
    metrics = []
    for row in content["metrics"]:
        numbers = {key: _number(row[key]) for key in _NUMBERS}
        metrics.append(MetricVerdict(row["metric"], row["slice"], **numbers))
    return Verdict(
        blessed=content["blessed"],
        splits=content["splits"],
        champion=content["champion"],
        metrics=metrics,
        not_compared=content.get("not_compared"),  # absent from earlier releases
    )


def _describe(metric: MetricVerdict) -> dict[str, Any]:
    content = dataclasses.asdict(metric)
    for key in _NUMBERS:
        # JSON has no NaN.
        if content[key] is not None and not math.isfinite(content[key]):
            content[key] = str(content[key])
    return {**content, "failures": metric.failures}


def _number(value: float | str | None) -> Any:
    return None if value is None else float(value)


def _overall(directory: str, model: str) -> dict[str, float]:
    result = tfma.load_eval_result(directory, model_name=model)
    by_output = next(dict(found) for key, found in result.slicing_metrics if not key)
    values: dict[str, float] = {}
    # By class too, where metrics are binarized: of one class alone in this pipeline.
    for metrics in by_output[""].values():
        for name, value in metrics.items():
            # TFMA adds the difference to the champion beside each metric.
            if "doubleValue" in value and not name.endswith(_DIFFERENCE):
                values[name] = float(value["doubleValue"])
    return values
