"""The simulation of the gate's errors."""

import pytest

from benchmarks import gate_rates

pytestmark = pytest.mark.slow


def test_equal_models_pass_and_a_much_worse_one_does_not():
    rates = [
        gate_rates.refusal_rates(408, change, 0.92, trials=200, significance=0.05)
        for change in (0.0, -0.05)
    ]
    equal, worse = rates
    assert equal[gate_rates.TEST] < 0.06
    assert equal[gate_rates.SLICE_TESTS] < 0.06
    assert worse[gate_rates.GATE] > 0.9
    for rate in rates:
        assert max(rate.values()) == rate[gate_rates.GATE]


def test_without_a_significance_only_the_bound_refuses():
    rates = gate_rates.refusal_rates(200, -0.02, 0.92, trials=50, significance=0.0)
    assert rates[gate_rates.GATE] == rates[gate_rates.BOUND] > 0
    assert rates[gate_rates.TEST] == rates[gate_rates.SLICE_TESTS] == 0
