"""Serializes rows and their predictions in each file format."""

from __future__ import annotations

import csv
import io
import json
from collections.abc import Iterable, Sequence
from typing import Any

import pyarrow as pa

from contracts.errors import UsageError
from contracts.settings.data import FileFormat
from contracts.task import label_cells
from ingest.examples import tf_examples
from ingest.rows.formats import CSV, DELIMITED, JSONL, PARQUET, TFRECORD
from ingest.rows.row_errors import RowError
from prediction.predictor import PREDICTION, rename_taken


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
                f"JSON cannot hold the row ({error}); use another --output-format"
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
        _refuse_surplus(row, self._columns)
        if isinstance(labels := row.get(PREDICTION), list):
            row = {**row, PREDICTION: label_cells.join(tuple(labels))}
        return self._to_line(row.get(column) for column in self._columns)


class Parquet:
    """Checks a row against the schema of a Parquet table; Beam writes the rows.

    Attributes:
      schema: The schema of the table.
    """

    def __init__(self, schema: pa.Schema) -> None:
        self.schema = schema

    def serialize(self, row: dict[str, Any]) -> dict[str, Any]:
        """Returns the row.

        Raises:
          RowError: A value does not fit the schema, or the row has more columns.
        """
        _refuse_surplus(row, self.schema.names)
        try:
            pa.RecordBatch.from_pylist([row], schema=self.schema)
        except MemoryError:  # ArrowMemoryError is an ArrowException too
            raise
        except (pa.ArrowException, OverflowError, ValueError) as error:
            raise RowError(
                f"a value does not fit the schema of the first rows: {error}"
            ) from error
        return row


class Examples:
    """Serializes a row as a `tf.Example`."""

    def serialize(self, row: dict[str, Any]) -> bytes:
        """Returns the serialized Example."""
        return tf_examples.from_row(row)


RowSerializer = JsonLines | Table | Parquet | Examples


def create(
    file_format: FileFormat,
    rows: Sequence[dict[str, Any]],
    predicted: dict[str, Any],
    schema: pa.Schema | None,
) -> RowSerializer:
    """Creates the serializer of a format.

    Args:
      file_format: One of `formats.FORMATS`.
      rows: The first rows, which decide the columns and types of a table.
      predicted: The columns of a prediction, with any value of their types.
      schema: The schema of the input, if it is Parquet.

    Raises:
      RowError: The format cannot hold the name of a column.
      UsageError: The first rows have no common schema.
    """
    if file_format == JSONL:
        return JsonLines()
    if file_format == TFRECORD:
        return Examples()
    columns = [*dict.fromkeys(name for row in rows for name in row)]
    names = rename_taken(columns, predicted)
    if file_format in DELIMITED:
        kept = [names.get(column, column) for column in columns]
        return Table([*kept, *predicted], file_format)
    assert file_format == PARQUET
    fields = [
        field.with_name(names.get(field.name, field.name))
        for field in schema or _infer_schema(rows, columns)
    ]
    return Parquet(pa.schema([*fields, *_infer_schema([predicted], [*predicted])]))


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


def _refuse_surplus(row: dict[str, Any], columns: list[str]) -> None:
    surplus = [name for name in row if name not in columns]
    if surplus:
        raise RowError(
            f"column {surplus[0]} is not one of the columns of the first rows "
            f"({', '.join(columns)}); write jsonl instead"
        )


def _infer_schema(rows: Sequence[dict[str, Any]], columns: list[str]) -> pa.Schema:
    fields = []
    for column in columns:
        try:
            dtype = _infer_type([row.get(column) for row in rows])
        except (pa.ArrowException, OverflowError) as error:
            raise UsageError(
                got=f"column {column} of the first {len(rows)} rows has several types "
                f"({error}), which Parquet cannot hold; use --output-format jsonl",
                name="E-prediction-columns",
            ) from error
        # A column without values becomes text.
        fields.append((column, pa.string() if pa.types.is_null(dtype) else dtype))
    return pa.schema(fields)


def _infer_type(values: list[Any]) -> pa.DataType:
    try:
        return pa.array(values).type
    except (OverflowError, pa.ArrowInvalid):
        # A row with an integer of more than 64 bits is refused later.
        fitting = [v for v in values if not isinstance(v, int) or v.bit_length() < 64]
        return pa.array(fitting).type
