"""Decides by paired tests whether a model is worse than another one."""

from __future__ import annotations

from collections.abc import Mapping

from contracts import wording
from contracts.records.evaluation import PairedTest, describe_slice
from modules.evaluation import resampling

# (feature, value) of each feature that the slice is of; () has all rows.
SliceKey = tuple[tuple[str, str], ...]


def find_worse_slices(
    tests: Mapping[SliceKey, PairedTest],
    other: str,
    significance: float,
    allowed: float = 0.0,
) -> list[str]:
    """Returns in which slices a model is worse than another.

    In a slice, which may have few rows, the metric must have dropped by its own test,
    and McNemar's exact test of the rows that only one model predicts right must find
    it, too. Its p-value is multiplied by the number of slices (Bonferroni).

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
