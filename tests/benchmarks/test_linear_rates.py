"""The simulation of the comparison with a linear model."""

import pytest

from benchmarks import linear_rates

pytestmark = pytest.mark.slow


@pytest.mark.parametrize("metric", ["accuracy", "pearson_spearman"])
def test_equal_model_passes_and_one_that_is_worse_in_a_slice_does_not(metric):
    trials = 100 if metric == "accuracy" else 10
    equal = linear_rates.refusal_rates(408, metric, trials)
    worse = linear_rates.refusal_rates(408, metric, trials, is_worse=True)
    assert equal[linear_rates.A_SLICE] < 0.06
    assert worse[linear_rates.A_SLICE] > 0.5
