"""The metrics of an evaluation by slice."""

from __future__ import annotations

import math

import tensorflow_model_analysis as tfma
from tensorflow_model_analysis.proto import metrics_for_slice_pb2

from contracts.records.evaluation import EXAMPLE_COUNT, Slice
from modules.evaluation.significance import SliceKey

Values = dict[str, metrics_for_slice_pb2.MetricValue]


def read_slices(evaluation: str, *, has_champion: bool) -> list[Slice]:
    """Reads the slices of an evaluation, except the slice of all rows.

    Args:
      evaluation: Directory of TFMA's results.
      has_champion: Whether there was a baseline.

    Returns:
      The slices in the order of their feature and value.
    """
    candidate = read_values(evaluation, tfma.CANDIDATE_KEY if has_champion else "")
    champion = read_values(evaluation, tfma.BASELINE_KEY) if has_champion else {}
    return [
        Slice(
            feature=" and ".join(feature for feature, _ in key),
            value=" and ".join(value for _, value in key),
            rows=int(numbers(values)[EXAMPLE_COUNT]),
            metrics=_finite(numbers(values)),
            champion=_finite(numbers(champion.get(key, {}))),
        )
        for key, values in sorted(candidate.items())
        if key
    ]


def read_values(evaluation: str, model: str) -> dict[SliceKey, Values]:
    """Returns TFMA's values by slice and metric; the slice of all rows is ().

    Args:
      evaluation: Directory of TFMA's results.
      model: The model's name in the evaluation.
    """
    # Not `load_eval_result`: it marks the change of a metric by the suffix "_diff", but
    # the name of a class may end like that.
    return {
        tfma.slicer.deserialize_slice_key(metrics.slice_key): {
            entry.key.name: entry.value
            for entry in metrics.metric_keys_and_values
            if entry.key.model_name == model and not entry.key.is_diff
        }
        for metrics in tfma.load_metrics(evaluation)
    }


def numbers(values: Values) -> dict[str, float]:
    """Returns the metrics that are numbers, by name."""
    return {
        name: value.double_value.value
        for name, value in values.items()
        if value.HasField("double_value")
    }


def _finite(metrics: dict[str, float]) -> dict[str, float]:
    return {
        name: value
        for name, value in metrics.items()
        if name != EXAMPLE_COUNT and math.isfinite(value)
    }
