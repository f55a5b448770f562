"""Rates and percentiles of calls, and the batches they are measured with."""

import pytest

from benchmarks import latency


def test_percentiles_count_calls_and_the_rate_counts_rows():
    calls = [0.010] * 98 + [0.020, 0.030]
    figures = latency.summarize(calls, rows=3200, seconds=1.6)
    assert figures["rows/s"] == pytest.approx(2000)
    assert figures["p50 ms"] == pytest.approx(10)
    assert 20 <= figures["p99 ms"] <= 30


def test_every_row_is_in_one_batch_in_order_and_the_last_batch_is_smaller():
    rows = [[str(index)] for index in range(10)]
    batches = []
    figures = latency.measure(batches.append, rows, [4, 5])
    assert batches == [rows[:4], rows[4:8], rows[8:], rows[:5], rows[5:]]
    assert {"rows/s at 4", "p50 ms at 4", "p99 ms at 5"} < set(figures)
