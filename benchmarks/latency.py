"""How long calls take; peers import it: nothing but the standard library."""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable, Sequence

from benchmarks.peer import Figures

Row = Sequence[str]
ROWS_PER_SECOND = "rows/s"
P50 = "p50 ms"
P99 = "p99 ms"


def summarize(calls: Sequence[float], rows: int, seconds: float) -> Figures:
    """Returns rows per second, and the median and 99th percentile of a call in ms.

    Args:
      calls: How long each took, in seconds.
      rows: Rows of all calls.
      seconds: How long all took, side by side.
    """
    percentiles = statistics.quantiles(calls, n=100, method="inclusive")
    return {
        ROWS_PER_SECOND: rows / seconds,
        P50: 1000 * statistics.median(calls),
        P99: 1000 * percentiles[98],
    }


def measure(
    call: Callable[[Sequence[Row]], object], rows: Sequence[Row], sizes: Sequence[int]
) -> Figures:
    """Calls with all rows in their order, so many at a time.

    Args:
      call: Answers some rows, each the texts of its columns.
      rows: At least two calls' worth of the largest size.
      sizes: Rows of a call, in turn; the last may have fewer.

    Returns:
      As `summarize` does, each figure called `NAME at SIZE`.
    """
    figures: Figures = {}
    for size in sizes:
        calls = []
        for batch in batches(rows, size):
            start = time.perf_counter()
            call(batch)
            calls.append(time.perf_counter() - start)
        found = summarize(calls, len(rows), sum(calls))
        figures |= {at(name, size): value for name, value in found.items()}
    return figures


def batches(rows: Sequence[Row], size: int) -> list[Sequence[Row]]:
    """Returns rows in their order, so many at a time."""
    return [rows[start : start + size] for start in range(0, len(rows), size)]


def at(name: str, size: int) -> str:
    """Returns what a figure is called that was measured with so many at a time."""
    return f"{name} at {size}"
