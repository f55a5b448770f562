"""Bounds of metrics, as TFMA wants them."""

from __future__ import annotations

import json
from collections.abc import Iterator

from tensorflow_model_analysis.proto import config_pb2


def parse(name: str, text: str) -> dict[str, float]:
    """Reads bounds from JSON.

    Args:
      name: Of the parameter, for a person.
      text: A JSON object of numbers by metric.

    Raises:
      ValueError: It is anything else.
    """
    try:
        values = json.loads(text)
        return {str(metric): float(value) for metric, value in values.items()}
    except (AttributeError, TypeError, ValueError) as error:
        raise ValueError(
            f"{name} is {text!r}; give JSON with a number for each metric, as "
            '{"accuracy": 0.8}'
        ) from error


def add(
    config: config_pb2.EvalConfig,
    thresholds: dict[str, float],
    max_regression: dict[str, float],
) -> None:
    """Puts bounds on metrics, on all rows.

    Args:
      config: Is changed. Metrics are found by the `name` of their `config`.
      thresholds: Lowest values.
      max_regression: How far below the baseline each may be.

    Raises:
      ValueError: There is no such metric.
    """
    metrics = dict(_named_metrics(config))
    missing = {*thresholds, *max_regression} - set(metrics)
    if missing:
        raise ValueError(
            f"bounds on {', '.join(sorted(missing))}, which is not measured; measured "
            f"are {', '.join(metrics)}"
        )
    for name, metric in metrics.items():
        if name in thresholds or name in max_regression:
            metric.per_slice_thresholds.append(
                _bound(thresholds.get(name), max_regression.get(name))
            )


def _named_metrics(
    config: config_pb2.EvalConfig,
) -> Iterator[tuple[str, config_pb2.MetricConfig]]:
    for spec in config.metrics_specs:
        for metric in spec.metrics:
            # TFMA keeps the inside of a JSON object, without its braces.
            name = json.loads(f"{{{metric.config}}}").get("name")
            if name:
                yield name, metric


def _bound(
    lowest: float | None, regression: float | None
) -> config_pb2.PerSliceMetricThreshold:
    bound = config_pb2.PerSliceMetricThreshold(slicing_specs=[config_pb2.SlicingSpec()])
    if lowest is not None:
        bound.threshold.value_threshold.lower_bound.value = lowest
    if regression is not None:
        change = bound.threshold.change_threshold
        change.direction = config_pb2.MetricDirection.HIGHER_IS_BETTER
        change.absolute.value = -regression
    return bound
