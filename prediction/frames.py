"""The columns and rows of a `pandas.DataFrame`, without importing pandas."""

from __future__ import annotations

import sys
from collections.abc import Iterable
from typing import TYPE_CHECKING

from contracts.errors import UsageError

if TYPE_CHECKING:
    import pandas as pd


def refuse_levels(argument: str, frame: pd.DataFrame) -> None:
    """Refuses the DataFrame of an argument if its columns have several levels."""
    if frame.columns.nlevels > 1:
        raise UsageError(
            argument,
            f"the columns of the DataFrame have {frame.columns.nlevels} levels",
            advice="give them one name each, such as with frame.columns.map('_'.join)",
            name="E-frame-refused",
        )


def refuse_repeated(argument: str, names: Iterable[str]) -> None:
    """Refuses the DataFrame of an argument if several columns have a name."""
    for name in names:
        raise UsageError(
            argument,
            f"several columns of the DataFrame are named {name!r}",
            advice="rename or drop all but one",
            name="E-frame-refused",
        )


def describe_row(position: int, index: pd.Index | None) -> str:
    """Returns where a row is: its position from 0, and its label in the index."""
    if index is None or index.equals(sys.modules["pandas"].RangeIndex(len(index))):
        return f"row {position}"
    (label,) = index[position : position + 1].tolist()
    return f"row {position} (index {label!r})"
