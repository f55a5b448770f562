"""The texts of rows, in the order of a model's columns."""

from __future__ import annotations

import dataclasses
import sys
from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from contracts import row_values
from contracts.errors import UsageError
from contracts.task.definition import input_name
from ingest.rows.row_errors import RowError
from prediction import frames
from prediction.predictor import (
    Predictor,
    add_columns,
    example_columns,
    rename_taken,
)

if TYPE_CHECKING:
    import pandas as pd


def texts_of(row: Mapping[str, Any], columns: Sequence[str]) -> tuple[str, ...]:
    """Returns the texts of a row in the order of the model's columns.

    A column may have the original name of a column that `init` renamed for the model.

    Raises:
      RowError: A column is missing, not text, or has no visible character.
    """
    texts = []
    for column in columns:
        names = [name for name in row if column in (name, input_name(name))]
        name = column if column in row else names[0] if len(names) == 1 else None
        if name is None:
            raise RowError(
                f"no column {column}; the model takes text in {' and '.join(columns)}, "
                f"the row has {', '.join(row) or 'no columns'}"
            )
        problem = row_values.find_text_problem(row[name], allows_marks=True)
        if problem:
            raise RowError(f"column {name} {problem}")
        texts.append(row[name])
    return tuple(texts)


@dataclasses.dataclass(frozen=True)
class GivenTexts:
    """The texts that a user of Python gives.

    Attributes:
      columns: The model's text columns.
      rows: The texts of each row in the order of the columns.
      frame: The DataFrame; None for anything else.
      index: The index of a DataFrame or of a Series; None for anything else.
    """

    columns: list[str]
    rows: list[tuple[str, ...]]
    frame: pd.DataFrame | None
    index: pd.Index | None


def read_texts(texts: Any, columns: list[str], call: str) -> GivenTexts:
    """Reads texts of Python.

    Args:
      texts: Texts; pairs, for a model of pairs; a Series of either; or a DataFrame with
        the text columns. They exist only in a process that has imported pandas.
      columns: The model's text columns.
      call: A call with a list, for the advice of an error.

    Raises:
      UsageError: The model takes other texts, or a text is empty.
    """
    pandas: Any = sys.modules.get("pandas")
    frame = index = None
    takes = f"{' and '.join(columns)}, which the model takes"
    rows: list[tuple[str, ...]] = []
    if pandas is not None and isinstance(texts, pandas.DataFrame):
        frame, index = texts, texts.index
        frames.refuse_levels("texts", frame)
        missing = [name for name in columns if name not in frame.columns]
        if missing:
            raise UsageError(
                "texts",
                f"the DataFrame has no column {missing[0]!r}, but "
                f"{', '.join(map(str, frame.columns))}",
                takes,
                name="E-column-missing",
            )
        repeated = frame.columns[frame.columns.duplicated()]
        frames.refuse_repeated("texts", repeated.intersection(columns))
        rows = list(frame[columns].itertuples(index=False, name=None))
    else:
        if isinstance(texts, str | bytes | Mapping) or not isinstance(texts, Iterable):
            raise UsageError(
                "texts",
                type(texts).__name__,
                f"a list of texts, such as {call}",
                name="E-text-refused",
            )
        if pandas is not None and isinstance(texts, pandas.Series):
            index = texts.index
        for position, row in enumerate(texts):
            values = (row,) if isinstance(row, str) else row
            if not isinstance(values, tuple | list) or len(values) != len(columns):
                form = "a text" if len(columns) == 1 else "a tuple or list of 2 texts"
                raise UsageError(
                    "texts",
                    f"{frames.describe_row(position, index)} is {row!r}",
                    f"{form}: {takes}",
                    name="E-text-refused",
                )
            rows.append(tuple(values))
    for position, row in enumerate(rows):
        for name, value in zip(columns, row, strict=True):
            problem = row_values.find_text_problem(value, allows_marks=True)
            if problem:
                raise UsageError(
                    "texts",
                    f"{frames.describe_row(position, index)}: {name} {problem}",
                    advice="correct the text",
                    name="E-text-refused",
                )
    return GivenTexts(columns, rows, frame, index)


def predict_rows(predictor: Predictor, texts: GivenTexts) -> list[dict[str, Any]]:
    """Returns the texts of each row and the columns of its prediction."""
    return [
        add_columns(dict(zip(texts.columns, row, strict=True)), prediction.as_columns())
        for row, prediction in zip(
            texts.rows, predictor.predict(texts.rows), strict=True
        )
    ]


def predict_frame(predictor: Predictor, texts: GivenTexts) -> pd.DataFrame:
    """Returns the texts, or the DataFrame, with the columns of the predictions.

    The caller has imported pandas.
    """
    pandas: Any = sys.modules["pandas"]
    frame = texts.frame
    if frame is None:
        frame = pandas.DataFrame(texts.rows, index=texts.index, columns=texts.columns)
    names = example_columns(is_score=predictor.is_score, labels=predictor.labels)
    values = [row.as_columns() for row in predictor.predict(texts.rows)]
    kept = frame.rename(columns=rename_taken(frame.columns, names))
    predicted = pandas.DataFrame(values, index=kept.index, columns=list(names))
    return pandas.concat([kept, predicted], axis=1)
