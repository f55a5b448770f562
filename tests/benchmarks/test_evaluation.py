"""The benchmark of the Evaluator's metrics in its smallest form."""

import pytest

from benchmarks import evaluation

pytestmark = pytest.mark.slow


@pytest.mark.nightly
def test_metrics_by_batch_are_compared_with_tfmas():
    head, _, line = evaluation.measure([20], 1).splitlines()
    assert head == "| rows | TFMA, ms per row | ours, ms per row |"
    assert line.startswith("| 20 | ")
