"""The common axis of values in a table."""

import math

import pytest

from report.scale import Scale


@pytest.mark.parametrize(
    ("values", "ends"),
    [
        ([0.78, 0.91, 0.955], (0.7, 1.0)),
        ([0.781, 0.784], (0.781, 0.784)),
        ([-0.3, 0.3], (-0.3, 0.3)),
        ([12.5, 1520], (0, 2000)),
        ([0.5, 0.5, math.nan], (0.5, 0.6)),
        ([0, 0], (0, 1)),
        ([math.nan, math.inf], (0, 1)),
    ],
)
def test_ends_are_round_numbers_around_the_values(values, ends):
    scale = Scale(values)
    assert (scale.low, scale.high) == ends
    assert all(scale.holds(value) for value in values if math.isfinite(value))
