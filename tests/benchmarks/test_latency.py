"""Times of calls, from a clock that a test can read."""

import pytest

from benchmarks import latency


def test_percentiles_are_of_calls_and_rows_per_second_of_rows():
    calls = [0.010] * 98 + [0.020, 0.030]
    found = latency.summarize(calls, rows=3200, seconds=1.6)
    assert found["rows/s"] == pytest.approx(2000)
    assert found["p50 ms"] == pytest.approx(10)
    assert 20 <= found["p99 ms"] <= 30


def test_every_row_is_asked_once_in_order_and_the_last_call_is_short():
    rows = [[str(index)] for index in range(10)]
    asked = []
    found = latency.measure(asked.append, rows, [4, 5])
    assert asked == [rows[:4], rows[4:8], rows[8:], rows[:5], rows[5:]]
    assert {"rows/s at 4", "p50 ms at 4", "p99 ms at 5"} < set(found)
