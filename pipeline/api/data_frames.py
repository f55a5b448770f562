"""A data set that comes as a `pandas.DataFrame`."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeAlias

from modules.errors import UsageError

if TYPE_CHECKING:
    import pandas as pd

    Data: TypeAlias = pd.DataFrame | str | Path
    Texts: TypeAlias = (
        pd.DataFrame | pd.Series | Iterable[str] | Iterable[tuple[str, str]]
    )
else:  # pandas is imported when there is a DataFrame
    Data = Texts = Any

FILE = "data.parquet"


def write(frame: pd.DataFrame, directory: Path) -> Path:
    """Writes a frame, without its index, to a file that `ingest` reads.

    Args:
      frame: The rows.
      directory: Where the file is written.

    Returns:
      The file.

    Raises:
      UsageError: It is not a DataFrame, the names of the columns are not different
        strings, there are no rows, or a column has values of several types.
    """
    import pandas as pd
    import pyarrow as pa
    from pyarrow import parquet

    if not isinstance(frame, pd.DataFrame):
        raise UsageError(
            f"data: {type(frame).__name__} is neither a pandas.DataFrame nor a path; "
            "give one of them, such as pandas.DataFrame(rows)",
            "E-frame-type",
        )
    if frame.columns.nlevels > 1:
        raise UsageError(
            f"data: the columns of the DataFrame have {frame.columns.nlevels} levels; "
            "give them one name each, such as with frame.columns.map('_'.join)",
            "E-frame-columns",
        )
    odd = [name for name in frame.columns if not isinstance(name, str)]
    if odd:
        raise UsageError(
            f"data: the name {odd[0]!r} of a column is not a string; rename it, such "
            "as with frame.rename(columns=str)",
            "E-frame-columns",
        )
    if not frame.columns.is_unique:
        name = frame.columns[frame.columns.duplicated()][0]
        raise UsageError(
            f"data: several columns of the DataFrame are named {name!r}; rename or "
            "drop all but one",
            "E-frame-columns",
        )
    if frame.empty:
        raise UsageError(
            f"data: the DataFrame has {len(frame)} rows and {len(frame.columns)} "
            "columns; give one with rows",
            "E-frame-empty",
        )
    columns = []
    for name in frame.columns:
        try:
            columns.append(pa.Array.from_pandas(frame[name]))
        except (pa.ArrowException, TypeError, ValueError, OverflowError) as error:
            raise UsageError(
                f"data: the column {name!r} of the DataFrame cannot be written: "
                f"{error}; convert its values to one type, such as with "
                f"frame[{name!r}].astype(str), or drop it",
                "E-frame-values",
            ) from error
    path = directory / FILE
    parquet.write_table(pa.table(columns, list(frame.columns)), path)
    return path


def describe_row(position: int, index: pd.Index | None) -> str:
    """Returns where a row is: its position from 0, and its label in the index."""
    import pandas as pd

    if index is None or index.equals(pd.RangeIndex(len(index))):
        return f"row {position}"
    return f"row {position} (index {index[position]!r})"
