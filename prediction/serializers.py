"""Serializes rows and their predictions as lines of text."""

from __future__ import annotations

import csv
import io
import json
from collections.abc import Iterable
from typing import Any

from contracts.settings.data import FileFormat
from contracts.task import label_cells
from ingest.rows.formats import CSV
from ingest.rows.row_errors import RowError
from prediction.predictor import PREDICTION


class JsonLines:
    """Serializes a row as a line of JSON, without the line ending."""

    def serialize(self, row: dict[str, Any]) -> bytes:
        """Returns the line in UTF-8.

        Raises:
          RowError: JSON cannot hold the row.
        """
        try:
            return json.dumps(row, ensure_ascii=False).encode()
        except (TypeError, ValueError, RecursionError) as error:
            raise RowError(
                f"JSON cannot hold the row ({error}); use another `output_format`"
            ) from error


class Table:
    """Serializes a row as a line of CSV or of unquoted TSV, without the line ending.

    Args:
      columns: The names of the columns.
      file_format: `csv` or `tsv`.

    Attributes:
      header: The line of the column names.
    """

    def __init__(self, columns: Iterable[str], file_format: FileFormat) -> None:
        self._columns = list(columns)
        self._to_line = _to_csv if file_format == CSV else _to_tsv
        self.header = self._to_line(self._columns)

    def serialize(self, row: dict[str, Any]) -> bytes:
        """Returns the line in UTF-8; a column that the row lacks is empty.

        Raises:
          RowError: The format cannot hold a value, or the row has more columns.
        """
        refuse_surplus(row, self._columns)
        if isinstance(labels := row.get(PREDICTION), list):
            row = {**row, PREDICTION: label_cells.join(tuple(labels))}
        return self._to_line(row.get(column) for column in self._columns)


def _to_csv(values: Iterable[Any]) -> bytes:
    # The writer quotes a value with a line break only if its terminator has that break.
    end = "\r\n"
    line = io.StringIO()
    csv.writer(line, lineterminator=end).writerow(values)
    try:
        return line.getvalue().removesuffix(end).encode()
    except UnicodeEncodeError as error:
        raise RowError(f"CSV cannot hold a value ({error})") from error


def _to_tsv(values: Iterable[Any]) -> bytes:
    line = io.StringIO()
    writer = csv.writer(
        line,
        delimiter="\t",
        quoting=csv.QUOTE_NONE,
        quotechar=None,
        lineterminator="",
    )
    try:
        writer.writerow(values)
        if "\r" in line.getvalue():
            raise csv.Error("a carriage return")
        return line.getvalue().encode()
    except (csv.Error, UnicodeEncodeError) as error:
        raise RowError(
            f"TSV cannot hold a value ({error}); write csv or jsonl instead"
        ) from error


def refuse_surplus(row: dict[str, Any], columns: list[str]) -> None:
    """Refuses a row with columns that the others lack.

    Raises:
      RowError: Names the first such column.
    """
    surplus = [name for name in row if name not in columns]
    if surplus:
        raise RowError(
            f"column {surplus[0]} is not one of the columns of the first rows "
            f"({', '.join(columns)}); write jsonl instead"
        )
