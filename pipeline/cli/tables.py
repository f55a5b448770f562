"""Tables that fit in a terminal 80 columns wide."""

from __future__ import annotations

from rich import box
from rich.table import Column, Table


def plain_table(*columns: str | Column) -> Table:
    """Returns a table without borders, with two spaces between its columns."""
    return Table(*columns, box=box.SIMPLE, padding=(0, 1, 0, 0), show_edge=False)


def short_id(run_id: str) -> str:
    """Returns the part of a run's id that tables show; commands accept it."""
    return run_id[: len("20261125-014907Z")]
