"""The texts of a row, in the order of a model's columns."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from contracts import row_values
from contracts.task.definition import input_name
from ingest.rows.row_errors import RowError


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
