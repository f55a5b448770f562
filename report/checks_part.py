"""The part of a page about the checks: their results as a template shows them."""

from __future__ import annotations

import dataclasses
from collections import Counter
from collections.abc import Sequence

from contracts import wording
from contracts.records.checks import STATUS_MARKS, Cell, CheckResult
from contracts.records.evaluation import Estimate
from report.scale import Scale

_SCALE_WIDTH = 140


@dataclasses.dataclass(frozen=True)
class ShownColumn:
    """A column of a table.

    Attributes:
      name: Its head.
      is_number: Whether its cells are numbers, which are aligned to the right.
      scale: The axis of its estimates; None if no cell has an interval.
    """

    name: str
    is_number: bool
    scale: Scale | None


def describe_columns(result: CheckResult) -> list[ShownColumn]:
    """Returns the columns of the table of a result."""
    table = result.table
    if table is None:
        return []
    columns = zip(*table.rows, strict=True) if table.rows else [()] * len(table.columns)
    return [
        ShownColumn(
            name=name,
            is_number=not any(isinstance(cell, str) for cell in cells),
            scale=_make_scale(cells),
        )
        for name, cells in zip(table.columns, columns, strict=True)
    ]


def _make_scale(cells: Sequence[Cell]) -> Scale | None:
    estimates = [cell for cell in cells if isinstance(cell, Estimate)]
    if not any(estimate.interval for estimate in estimates):
        return None
    ends = (end for cell in estimates for end in (cell.value, *(cell.interval or ())))
    return Scale(ends, width=_SCALE_WIDTH)


def summarize(results: Sequence[CheckResult]) -> str:
    """Returns how many checks have each status; empty without checks."""
    counts = Counter(result.status for result in results)
    return ", ".join(
        wording.count(counts[status], status, None if status == "warning" else status)
        for status in STATUS_MARKS
        if counts[status]
    )
