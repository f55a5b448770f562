"""What the gate's verdict is put down to."""

import pytest

from pipeline.report import MetricResult


@pytest.mark.parametrize(
    ("candidate", "champion", "threshold", "regression", "failures"),
    [
        (0.8, None, 0.8, 0.1, []),
        (0.7999, None, 0.8, None, ["accuracy is 0.7999, the threshold is 0.8000"]),
        (float("nan"), None, 0.8, None, ["accuracy is nan, the threshold is 0.8000"]),
        (0.85, 0.86, 0.8, 0.02, []),
        (
            0.83,
            0.86,
            0.8,
            0.02,
            ["accuracy is 0.8300, more than 0.0200 below the champion's 0.8600"],
        ),
        (0.1, 0.9, None, None, []),
    ],
)
def test_metric_fails_below_its_threshold_or_too_far_below_the_champion(
    candidate, champion, threshold, regression, failures
):
    metric = MetricResult("accuracy", candidate, champion, threshold, regression)
    assert metric.failures == failures
