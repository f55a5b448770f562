"""The verdict on an evaluated model, as a small JSON file for people."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

import tensorflow_model_analysis as tfma

from components.evaluator import slices
from components.evaluator.bounds import Bounds
from modules import files, uris
from modules.evaluation import resampling
from modules.evaluation.resampling import PairedTest
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
    """Returns why a model is refused that is worse than the champion beyond noise.

    On all rows, the task's metric decides, unless it violates a bound. In a slice,
    which may have few rows, McNemar's exact test decides on the rows that each model
    predicts right; its p-value is multiplied by the number of slices (Bonferroni).
    Slices are not tested in a regression, or if the model is worse on all rows.

    Args:
      tests: The tests of the champion and the model by slice.
      significance: Below this p-value, a difference is more than noise.
      metrics: The metrics on all rows.
    """
    reasons = []
    violated = {metric.metric for metric in metrics if metric.failures}
    slice_count = len(tests) - 1
    for key, test in sorted(tests.items()):
        if key:
            champion, model = test.only_a_right or 0, test.only_b_right or 0
            is_worse = model < champion
            p_value = slice_count * resampling.mcnemar(champion, model)
            name = " and ".join(f"{feature} {value}" for feature, value in key)
            difference = (
                f"in the slice {name} ({test.rows:,} rows), {champion} rows are right "
                f"for the champion alone and {model} for the model alone"
            )
        else:
            is_worse = test.difference < 0 and test.metric not in violated
            p_value = test.p_value
            difference = f"{test.metric} is {-test.difference:.4f} below the champion's"
        if is_worse and p_value < significance:  # False for NaN
            reasons.append(
                f"{difference}, which is more than noise: p = {p_value:.2g} is below "
                f"evaluator.significance ({significance:g})"
            )
            if not key:
                break
    return reasons


def write_verdict(verdict: Verdict, directory: str) -> None:
    """Writes a verdict as a JSON file in a directory."""
    files.write_record(uris.join(directory, VERDICT_FILE), verdict.as_json())


def read_verdict(directory: str) -> Verdict:
    """Reads what `write_verdict` wrote."""
    content = files.read_record(uris.join(directory, VERDICT_FILE))
    return Verdict.model_validate(content)


def _read_overall(evaluation: str, model: str) -> slices.Values:
    return slices.read_values(evaluation, model)[()]
