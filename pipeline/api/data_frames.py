"""A data set that comes as a `pandas.DataFrame`."""

from __future__ import annotations

import contextlib
import dataclasses
import io
import json
import re
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeAlias

import numpy as np

from contracts import wording
from contracts.errors import UsageError
from contracts.row_values import find_surrogate, is_missing
from ingest.rows.row_errors import RowError
from prediction.frames import describe_row, refuse_levels, refuse_repeated

if TYPE_CHECKING:
    import pandas as pd
    import pyarrow as pa

    from pipeline.onboarding.create import Project

    Data: TypeAlias = pd.DataFrame | str | Path
    Texts: TypeAlias = (
        pd.DataFrame | pd.Series | Iterable[str] | Iterable[tuple[str, str]]
    )
else:  # pandas is imported when there is a DataFrame
    Data = Texts = Any

_FILE = "data.parquet"
_LISTS = (list, tuple, set, frozenset)
_SHOWN = 40
# Those of pyarrow, and of the methods of objects.
_ERRORS = (
    *(ValueError, TypeError, ArithmeticError, AttributeError, RecursionError),
    *(NotImplementedError, KeyError),
)


@dataclasses.dataclass(frozen=True)
class FrameFile:
    """A file with the rows of a DataFrame, without its index.

    Attributes:
      path: The file, which `ingest` reads.
      index: The index of the DataFrame.
      problems: The errors of columns whose values no file can hold, by their names.
        The file has texts instead, so that a task can be guessed without such columns.
    """

    path: Path
    index: pd.Index
    problems: dict[str, UsageError]

    def refuse(self, used: Iterable[Any]) -> None:
        """Refuses columns of a task, or of the split, whose values no file can hold."""
        for name in used:
            if isinstance(name, str) and name in self.problems:
                raise self.problems[name]

    def name_rows(self, text: str) -> str:
        """Replaces the locations of rows in the file by those in the DataFrame."""
        text = re.sub(
            rf"(?:\brow )?{re.escape(str(self.path))}:(\d+)",
            lambda match: describe_row(int(match[1]) - 1, self.index),
            text,
        )
        return text.replace(str(self.path), "a pandas.DataFrame")

    def name_rows_of(self, project: Project) -> None:
        """Does so in the inspection and in the skipped rows of a project."""
        inspection = project.inspection
        for texts in (inspection.refused, inspection.warnings):
            texts[:] = map(self.name_rows, texts)
        for split in inspection.splits.values():
            split.shortest = self.name_rows(split.shortest)
            split.longest = self.name_rows(split.longest)
        file = project.skipped_file
        if file is not None and file.exists():
            with file.open(encoding="utf-8") as lines:
                rows = list(map(json.loads, lines))
            for row in rows:
                row["file"], row["row"] = "a pandas.DataFrame", row["row"] - 1
                (row["index"],) = self.index[row["row"] : row["row"] + 1].tolist()
            texts = [json.dumps(row, ensure_ascii=False, default=str) for row in rows]
            file.write_text("\n".join([*texts, ""]), "utf-8")

    @contextlib.contextmanager
    def naming_rows(self) -> Iterator[None]:
        """Names rows in errors by their place in the DataFrame."""
        try:
            yield
        except UsageError as error:
            *fields, name = error.args
            named = (field and self.name_rows(field) for field in fields)
            raise UsageError(*named, name=name) from error


def _refused(got: str, advice: str) -> UsageError:
    return UsageError("data", got, advice=advice, name="E-frame-refused")


def write(frame: pd.DataFrame, directory: Path) -> FrameFile:
    """Writes a frame to a file that `ingest` reads.

    Raises:
      UsageError: It is not a DataFrame, the names of the columns are not different
        strings, or it has no rows.
    """
    import pandas as pd
    import pyarrow as pa
    from pyarrow import parquet

    from ingest.rows import arrow_readers

    if not isinstance(frame, pd.DataFrame):
        raise _refused(
            type(frame).__name__,
            "give a path or a pandas.DataFrame, such as pandas.DataFrame(rows)",
        )
    refuse_levels("data", frame)
    for name in frame.columns:
        if not isinstance(name, str):
            raise _refused(
                f"the name {name!r} of a column is not a string",
                "rename it, such as with frame.rename(columns=str)",
            )
        if problem := find_surrogate(name):
            raise _refused(f"the name {name!a} of a column {problem}", "rename it")
    refuse_repeated("data", frame.columns[frame.columns.duplicated()])
    if frame.empty:
        raise _refused(
            f"the DataFrame has {wording.count(len(frame), 'row')} and "
            f"{wording.count(len(frame.columns), 'column')}",
            "give one with rows",
        )
    columns, problems = [], {}
    for name in frame.columns:
        values = frame[name]
        if values.dtype == np.float16:  # older versions of pyarrow do not write it
            values = values.astype(np.float32)
        try:
            if values.dtype == object:
                listed = [_to_list(value) for value in values]
                column = pa.array(listed, from_pandas=True)
            else:
                column = pa.Array.from_pandas(values)
            if isinstance(column.type, pa.BaseExtensionType):
                raise TypeError(f"{column.type} is read as another type")
            if not _is_simple(column.type):
                file = io.BytesIO()
                parquet.write_table(pa.table([column], ["values"]), file)
                for _, row in arrow_readers.read_parquet(file):
                    if isinstance(row, RowError):
                        raise row
        except _ERRORS as error:
            problem, advice = _find_bad_row(values) or (
                str(error),
                "convert its values to one type, such as with "
                f"frame[{name!r}].astype(str), or drop it",
            )
            problems[name] = UsageError(
                "data",
                f"the column {name!r} of the DataFrame cannot be written: {problem}",
                advice=advice,
                name="E-prediction-columns",
            )
            column = pa.array(map(_as_text, values), pa.string())
        columns.append(column)
    path = directory / _FILE
    parquet.write_table(pa.table(columns, list(frame.columns)), path)
    return FrameFile(path, frame.index, problems)


def _to_list(value: Any) -> Any:
    """Returns a set or an array of one dimension as a list, and others unchanged.

    Arrow reads no frozenset, and an empty array of floats makes indices floats.
    """
    if isinstance(value, set | frozenset):
        return sorted(value, key=str)
    is_vector = isinstance(value, np.ndarray) and value.ndim == 1
    return value.tolist() if is_vector else value


def _is_simple(kind: pa.DataType) -> bool:
    """Returns whether a file surely holds values of a type."""
    from pyarrow import types

    tests = (
        *(types.is_string, types.is_large_string, types.is_boolean),
        *(types.is_integer, types.is_float32, types.is_float64),
    )
    if types.is_dictionary(kind) or types.is_list(kind):
        kind = kind.value_type
    return any(test(kind) for test in tests)


def _find_bad_row(values: pd.Series) -> tuple[str, str] | None:
    """Returns the first row of texts or lists that no file can hold, and advice."""
    has_lists = any(isinstance(value, _LISTS) for value in values)
    for position, value in enumerate(values):
        items = value if isinstance(value, _LISTS) else [value]
        texts = [item for item in items if isinstance(item, str)]
        row = describe_row(position, values.index)
        if problem := next(filter(None, map(find_surrogate, texts)), None):
            return f"{row} {problem}", "correct the row, or drop the column"
        is_missing = value is None or value != value
        if (
            has_lists
            and not is_missing
            and (items is not value or len(texts) < len(items))
        ):
            return f"{row} is {value!r:.80}", "write a list of texts in each row"
    return None


def _as_text(value: Any) -> str | None:
    """Returns a text, or a short one without blanks, which is not taken for one."""
    if not isinstance(value, str):
        text = "_".join(str(value).split())[:_SHOWN]
        value = None if is_missing(text) else text
    return value and value.encode("utf-8", "backslashreplace").decode()
