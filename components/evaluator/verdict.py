"""The verdict on an evaluated model, from the results of TFMA."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

import tensorflow_model_analysis as tfma

from components.evaluator import slices
from contracts.errors import named
from contracts.records.evaluation import MetricVerdict, PairedTest
from contracts.settings.evaluator import EvaluatorConfig
from modules.evaluation import significance as paired
from modules.evaluation.significance import SliceKey


def read_metrics(
    evaluation: str, bounds: EvaluatorConfig, *, has_champion: bool
) -> list[MetricVerdict]:
    """Reads the metrics on all rows, those with bounds first.

    Args:
      evaluation: Directory of TFMA's results.
      bounds: The bounds of the metrics.
      has_champion: Whether there was a baseline: TFMA then stores the models' names.
    """
    candidate = tfma.CANDIDATE_KEY if has_champion else ""
    values = slices.numbers(slices.read_values(evaluation, candidate)[()])
    champion: dict[str, float] = {}
    if has_champion:
        baseline = slices.read_values(evaluation, tfma.BASELINE_KEY)
        champion = slices.numbers(baseline[()])
    metrics = [
        MetricVerdict(
            metric=name,
            value=value,
            champion=champion.get(name),
            threshold=bounds.thresholds.get(name),
            max_regression=bounds.max_regression.get(name),
        )
        for name, value in values.items()
    ]
    return sorted(metrics, key=lambda metric: not metric.is_bounded)


def read_paired_tests(evaluation: str) -> dict[SliceKey, PairedTest]:
    """Reads the tests of both models by slice; the slice of all rows is ().

    Args:
      evaluation: Directory of TFMA's results, with a baseline.
    """
    return {
        key: PairedTest.model_validate_json(value.bytes_value)
        for key, values in slices.read_values(evaluation, tfma.CANDIDATE_KEY).items()
        for value in values.values()
        if value.HasField("bytes_value")  # of `tfma_paired_test` alone
    }


def find_worse(
    tests: Mapping[SliceKey, PairedTest],
    significance: float,
    metrics: Iterable[MetricVerdict],
) -> list[str]:
    """Returns why a model that violates no bound is worse than the champion.

    On all rows, the paired test of the task's metric decides. In a slice, that metric
    must have dropped by more than its `max_regression`, too; see
    `significance.find_worse_slices`. Slices of a regression are not tested.

    Args:
      tests: The tests of the champion and the model by slice.
      significance: A model is worse if the p-value is below this.
      metrics: The metrics on all rows.

    Returns:
      Empty if the metric violates a bound, which is reason enough, or if it is NaN for
      one of the models.
    """
    by_name = {metric.metric: metric for metric in metrics}
    whole = tests.get(())
    if whole is None or by_name[whole.metric].failures:
        return []
    if reason := paired.find_reason(whole, "the champion's", significance):
        return [named(reason, "E-worse-than-champion")]
    allowed = by_name[whole.metric].max_regression or 0.0
    by_slice = {
        key: test
        for key, test in tests.items()
        if key and test.only_a_right is not None
    }
    worse = paired.find_worse_slices(by_slice, "the champion's", significance, allowed)
    return [named(reason, "E-worse-than-champion") for reason in worse]
