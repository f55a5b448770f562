"""Serializes rows and their predictions in the format of the output."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pyarrow as pa

from contracts.errors import UsageError
from contracts.settings.data import FileFormat
from ingest.examples import tf_examples
from ingest.rows.formats import DELIMITED, JSONL, PARQUET, TFRECORD
from ingest.rows.row_errors import RowError
from prediction.predictor import rename_taken
from prediction.serializers import JsonLines, Table, refuse_surplus


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
        refuse_surplus(row, self.schema.names)
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


def _infer_schema(rows: Sequence[dict[str, Any]], columns: list[str]) -> pa.Schema:
    fields = []
    for column in columns:
        try:
            dtype = _infer_type([row.get(column) for row in rows])
        except (pa.ArrowException, OverflowError) as error:
            raise UsageError(
                "output_format",
                f"Parquet cannot hold column {column} of the first {len(rows)} rows, "
                f"which has several types ({error})",
                advice="use `output_format=jsonl`",
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
