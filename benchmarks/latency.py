"""Rates and latencies of calls; imports nothing but the standard library."""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable, Sequence
from typing import TypeVar

from benchmarks.peer import Figures

Row = Sequence[str]
T = TypeVar("T")
ROWS_PER_SECOND = "rows/s"
P50 = "p50 ms"
P99 = "p99 ms"


def summarize(calls: Sequence[float], rows: int, seconds: float) -> Figures:
    """Returns rows per second, and the median and 99th percentile of a call in ms.

    Args:
      calls: Seconds of each call.
      rows: Rows of all calls.
      seconds: Time that all calls took together; they may run concurrently.
    """
    percentiles = statistics.quantiles(calls, n=100, method="inclusive")
    return {
        ROWS_PER_SECOND: rows / seconds,
        P50: 1000 * statistics.median(calls),
        P99: 1000 * percentiles[98],
    }


def measure(
    call: Callable[[Sequence[T]], object], rows: Sequence[T], sizes: Sequence[int]
) -> Figures:
    """Calls a function with all rows in their order, in batches of each size.

    Args:
      call: Takes a batch of rows.
      rows: At least two batches of the largest size.
      sizes: Rows of a batch; the last batch may be smaller.

    Returns:
      The figures of `summarize` for each size, named `NAME at SIZE`.
    """
    figures: Figures = {}
    for size in sizes:
        durations = []
        for batch in batches(rows, size):
            start = time.perf_counter()
            call(batch)
            durations.append(time.perf_counter() - start)
        summary = summarize(durations, len(rows), sum(durations))
        figures |= {at(name, size): value for name, value in summary.items()}
    return figures


def batches(rows: Sequence[T], size: int) -> list[Sequence[T]]:
    """Returns rows in their order, in batches of `size`."""
    return [rows[start : start + size] for start in range(0, len(rows), size)]


def at(name: str, size: int) -> str:
    """Returns the name of a figure at a batch size or a number of clients."""
    return f"{name} at {size}"
