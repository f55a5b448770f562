"""Tables that fit in a terminal 80 columns wide."""

from __future__ import annotations

from rich import box
from rich.table import Column, Table


def plain_table(*columns: str | Column) -> Table:
    """Returns a table without borders, with two spaces between its columns."""
    return Table(*columns, box=box.SIMPLE, padding=(0, 1, 0, 0), show_edge=False)


def duration(seconds: float | None) -> str:
    """Returns a duration as text, such as `2 min 5 s`; empty if it is None."""
    if seconds is None:
        return ""
    minutes, rest = divmod(round(seconds), 60)
    hours, minutes = divmod(minutes, 60)
    if hours:
        return f"{hours} h {minutes} min"
    return f"{minutes} min {rest} s" if minutes else f"{seconds:.1f} s"


# The part of a run's id that tables show, which `show` and `override` accept.
SHORT_ID = len("20261125-014907")
