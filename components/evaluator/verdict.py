"""The verdict on an evaluated model, as a small JSON file for people."""

from __future__ import annotations

import json
from typing import Any

import tensorflow_model_analysis as tfma

from components.evaluator import slices
from components.evaluator.bounds import Bounds
from modules import files, uris
from modules.verdicts import VERDICT_FILE, MetricVerdict, Verdict


def read_metrics(
    evaluation: str, bounds: Bounds, *, has_champion: bool
) -> list[MetricVerdict]:
    """Reads the metrics on all rows, those with bounds first.

    Args:
      evaluation: Directory of TFMA's results.
      bounds: The bounds of the metrics.
      has_champion: Whether there was a baseline: TFMA then stores the models' names.
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
    """Reads the test of both models, the only metric whose value is JSON.

    Args:
      evaluation: Directory of TFMA's results.
      has_champion: Whether there was a baseline.
    """
    if not has_champion:
        return None
    for value in _read_overall(evaluation, tfma.CANDIDATE_KEY).values():
        if value.HasField("bytes_value"):
            return json.loads(value.bytes_value)
    return None


def write_verdict(verdict: Verdict, directory: str) -> None:
    """Writes a verdict as a JSON file in a directory."""
    files.write_record(uris.join(directory, VERDICT_FILE), verdict.as_json())


def read_verdict(directory: str) -> Verdict:
    """Reads what `write_verdict` wrote."""
    content = files.read_record(uris.join(directory, VERDICT_FILE))
    return Verdict.model_validate(content)


def _read_overall(evaluation: str, model: str) -> slices.Values:
    return slices.read_values(evaluation, model)[()]
