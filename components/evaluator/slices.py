"""The metrics of an evaluation by slice, as JSON can hold them."""

from __future__ import annotations

import math
from typing import Any

import tensorflow_model_analysis as tfma

_DIFFERENCE = "_diff"
_COUNT = "example_count"

SliceKey = tuple[tuple[str, str], ...]


def read_slices(evaluation: str, *, has_champion: bool) -> list[dict[str, Any]]:
    """Reads the slices of an evaluation, without the one with all rows.

    Args:
      evaluation: Directory of TFMA's results.
      has_champion: Whether there was a baseline.

    Returns:
      `feature`, `value`, `rows`, and `metrics` and `champion` by name, of each slice
      in the order of its feature and value. Metrics that are not finite are left out.
    """
    candidate = read_metrics(evaluation, tfma.CANDIDATE_KEY if has_champion else "")
    champion = read_metrics(evaluation, tfma.BASELINE_KEY) if has_champion else {}
    return [
        {
            "feature": " and ".join(feature for feature, _ in key),
            "value": " and ".join(value for _, value in key),
            "rows": int(metrics[_COUNT]),
            "metrics": _finite(metrics),
            "champion": _finite(champion.get(key, {})),
        }
        for key, metrics in sorted(candidate.items())
        if key
    ]


def read_metrics(evaluation: str, model: str) -> dict[SliceKey, dict[str, float]]:
    """Returns the metrics of a model by name, of each slice; the key of all rows is ().

    Args:
      evaluation: Directory of TFMA's results.
      model: Its name in the evaluation.
    """
    result = tfma.load_eval_result(evaluation, model_name=model)
    return {key: _values(by_output) for key, by_output in result.slicing_metrics}


def _values(by_output: Any) -> dict[str, float]:
    values: dict[str, float] = {}
    # Binarized metrics are listed by class; this pipeline binarizes by one class only.
    for metrics in by_output[""].values():
        for name, value in metrics.items():
            # TFMA adds the difference to the baseline beside each metric.
            if "doubleValue" in value and not name.endswith(_DIFFERENCE):
                values[name] = float(value["doubleValue"])
    return values


def _finite(metrics: dict[str, float]) -> dict[str, float]:
    return {
        name: value
        for name, value in metrics.items()
        if name != _COUNT and math.isfinite(value)
    }
