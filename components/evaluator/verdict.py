"""The verdict on an evaluated model, from the results of TFMA."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

import tensorflow_model_analysis as tfma
from tfx import types

from components.evaluator import slices
from components.examples import read_records, read_slices
from contracts import wording
from contracts.errors import named
from contracts.records.evaluation import (
    MetricVerdict,
    PairedTest,
    describe_slice,
)
from contracts.settings.evaluator import EvaluatorConfig
from contracts.settings.sections import Sections
from modules.data import slice_sizes
from modules.data.slice_sizes import Counts
from modules.evaluation import resampling


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


def find_slice_thresholds(
    examples: types.Artifact, settings: Sections
) -> dict[slices.SliceKey, dict[str, float]]:
    """Returns the thresholds of slices by columns, by slice and metric.

    A metric has none in slices with fewer rows that it counts than their least number.

    Args:
      examples: The Examples that are evaluated.
      settings: The task and the thresholds.
    """
    task, thresholds = settings.task, settings.evaluator.slice_thresholds
    counts: dict[str, Counts] = {column: {} for column in thresholds}
    if thresholds:
        for record in read_records(examples, settings.evaluator.gate_split):
            for column, (value, label) in read_slices(record, [*thresholds], task):
                slice_sizes.count_row(counts[column], value, label, task)
    return {
        ((column, value),): {
            metric: threshold
            for metric, threshold in thresholds[column].items()
            if slice_sizes.count_deciding(metric, labels, task)[0]
            >= settings.evaluator.min_slice_rows
        }
        for column, values in counts.items()
        for value, labels in values.items()
    }


def read_paired_tests(evaluation: str) -> dict[slices.SliceKey, PairedTest]:
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
    tests: Mapping[slices.SliceKey, PairedTest],
    significance: float,
    metrics: Iterable[MetricVerdict],
) -> list[str]:
    """Returns why a model that violates no bound is worse than the champion.

    On all rows, the paired test of the task's metric decides. In a slice, which may
    have few rows, that metric must have dropped by more than its `max_regression` and
    by that test, and McNemar's exact test of the rows that only one model predicts
    right must find it, too. Its p-value is multiplied by the number of slices
    (Bonferroni). Slices of a regression are not tested.

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
    if reason := find_reason(whole, "the champion's", significance):
        return [named(reason, "E-worse-than-champion")]
    allowed = by_name[whole.metric].max_regression or 0.0
    slices = {
        key: test
        for key, test in tests.items()
        if key and test.only_a_right is not None
    }
    worse = find_worse_slices(slices, "the champion's", significance, allowed)
    return [named(reason, "E-worse-than-champion") for reason in worse]


def find_worse_slices(
    tests: Mapping[slices.SliceKey, PairedTest],
    other: str,
    significance: float,
    allowed: float = 0.0,
) -> list[str]:
    """Returns in which slices a model is worse than another; see `find_worse`.

    Args:
      tests: The tests of the other model and the model by slice. Those of scores have
        the p-value of their bootstrap.
      other: The metric of the other model, in words.
      significance: A model is worse if the p-value is below this.
      allowed: The metric must have dropped by more than this.
    """
    reasons = []
    for key, test in sorted(tests.items()):
        p_value, only_a, only_b = test.p_value, test.only_a_right, test.only_b_right
        if only_a is not None and only_b is not None:
            p_value = resampling.mcnemar(only_a, only_b) if only_b < only_a else 1.0
        p_value *= len(tests)
        # McNemar's test is of accuracy, whatever the metric is.
        is_worse = find_reason(test, other, significance) is not None
        has_dropped = -test.difference > max(0.0, allowed)
        if is_worse and has_dropped and p_value < significance:
            feature, value = (" and ".join(part) for part in zip(*key, strict=True))
            name = describe_slice(feature, value, test.rows)
            reasons.append(
                f"in the slice {name}, {test.metric} is {test.b:.4f}, "
                f"{-test.difference:.2g} below {other} {test.a:.4f}: p = "
                f"{p_value:.2g}, multiplied by {wording.count(len(tests), 'slice')}, "
                f"{_describe_bound(significance)}"
            )
    return reasons


def find_reason(test: PairedTest, other: str, significance: float) -> str | None:
    """Returns why a model is worse than another, or None.

    Args:
      test: The test of the other model and the model.
      other: The metric of the other model, in words.
      significance: The model is worse if the p-value is below this.
    """
    if not (test.difference < 0 and test.p_value < significance):  # True for NaN
        return None
    return (
        f"{test.metric} is {-test.difference:.2g} below {other}: p = "
        f"{test.p_value:.2g} {_describe_bound(significance)}"
    )


def _describe_bound(significance: float) -> str:
    return f"is below evaluator.significance ({significance:g})"
