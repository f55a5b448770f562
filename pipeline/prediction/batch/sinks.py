"""Where rows go: shards of four formats."""

from __future__ import annotations

import contextlib
import csv
from collections.abc import Iterable, Sequence
from typing import Any

import apache_beam as beam
import pyarrow as pa
from apache_beam.io.filesystems import FileSystems
from pyarrow import parquet

from pipeline.config.errors import UsageError
from pipeline.prediction import predictor
from pipeline.prediction.batch import tf_examples
from pipeline.prediction.batch.rows import RowError
from pipeline.prediction.batch.sources import JSONL, PARQUET, TFRECORD, TSV


class Sink:
    """Encodes rows of one format, and writes them as shards.

    What `encode` lets pass, the writer does not fail at.
    """

    def __init__(self, suffix: str):
        """Keeps how the names of the shards end."""
        self._suffix = suffix

    def encode(self, row: dict[str, Any]) -> Any:
        """Returns a row as the writer takes it.

        Raises:
          RowError: The format cannot hold it.
        """
        raise NotImplementedError

    def write(self, prefix: str) -> beam.PTransform:
        """Returns what writes encoded rows to `PREFIX-00000-of-00001` and so on."""
        return beam.io.WriteToText(
            prefix, file_name_suffix=self._suffix, coder=beam.coders.BytesCoder()
        )


class JsonLines(Sink):
    """A JSON object a line."""

    def encode(self, row: dict[str, Any]) -> bytes:
        """Returns the line in UTF-8."""
        try:
            return predictor.as_json(row).encode()
        except (TypeError, ValueError, RecursionError) as error:
            raise RowError(
                f"JSON cannot hold it ({error}); take another --output-format"
            ) from error


class Table(Sink):
    """TSV with a header in each shard."""

    def __init__(self, suffix: str, columns: Sequence[str]):
        """Keeps suffix and columns."""
        super().__init__(suffix)
        self._columns = list(columns)

    def encode(self, row: dict[str, Any]) -> bytes:
        """Returns the line in UTF-8."""
        _refuse_surplus(row, self._columns)
        return self._line(row.get(column) for column in self._columns)

    def write(self, prefix: str) -> beam.PTransform:
        """Returns what writes the shards."""
        return beam.io.WriteToText(
            prefix,
            file_name_suffix=self._suffix,
            coder=beam.coders.BytesCoder(),
            header=self._line(self._columns),
        )

    @staticmethod
    def _line(values: Iterable[Any]) -> bytes:
        try:
            line = predictor.as_tsv(values)
            if "\r" in line:
                raise csv.Error("a carriage return")
            return line.encode()
        except (csv.Error, UnicodeEncodeError) as error:
            raise RowError(
                f"TSV cannot hold a value ({error}); take --output-format jsonl"
            ) from error


class Parquet(Sink):
    """Parquet of the first file's schema, or of what the first rows hold."""

    def __init__(self, suffix: str, schema: pa.Schema):
        """Keeps suffix and schema."""
        super().__init__(suffix)
        self._schema = schema

    def encode(self, row: dict[str, Any]) -> dict[str, Any]:
        """Returns the row, whose values fit the schema."""
        _refuse_surplus(row, self._schema.names)
        try:
            pa.RecordBatch.from_pylist([row], schema=self._schema)
        except MemoryError:  # pyarrow's is an ArrowException too
            raise
        except (pa.ArrowException, OverflowError, ValueError) as error:
            raise RowError(
                f"a value does not fit the schema that the first rows gave: {error}"
            ) from error
        return row

    def write(self, prefix: str) -> beam.PTransform:
        """Returns what writes the shards."""
        return beam.io.WriteToParquet(
            prefix, self._schema, file_name_suffix=self._suffix, codec="snappy"
        )


class Examples(Sink):
    """TFRecords of `tf.Example`s. The feature of a prediction is bytes or float."""

    def encode(self, row: dict[str, Any]) -> bytes:
        """Returns the serialized Example."""
        return tf_examples.from_row(row)

    def write(self, prefix: str) -> beam.PTransform:
        """Returns what writes the shards."""
        return beam.io.WriteToTFRecord(prefix, file_name_suffix=self._suffix)


def _refuse_surplus(row: dict[str, Any], columns: list[str]) -> None:
    surplus = [name for name in row if name not in columns]
    if surplus:
        raise RowError(
            f"column {surplus[0]} is none of the first rows' ({', '.join(columns)}); "
            "take --output-format jsonl"
        )


def create(
    file_format: str,
    *,
    is_gzip: bool,
    rows: list[dict[str, Any]],
    columns: list[str],
    predicted: dict[str, Any],
    schema: pa.Schema | None = None,
) -> Sink:
    """Makes the sink of a format.

    Args:
      file_format: One of `sources.FORMATS`.
      is_gzip: Whether to gzip; Parquet packs by itself.
      rows: The first rows, for what a table or a schema must know beforehand.
      columns: Of the rows, if there were any.
      predicted: What a prediction adds, with any value of its type.
      schema: That of the input, where it is Parquet.

    Raises:
      UsageError: The first rows have no common schema.
    """
    suffix = f".{file_format}{'.gz' if is_gzip else ''}"
    if file_format == JSONL:
        return JsonLines(suffix)
    if file_format == TFRECORD:
        return Examples(suffix)
    if file_format == TSV:
        return Table(suffix, [*dict.fromkeys([*columns, *predicted])])
    assert file_format == PARQUET
    fields = {field.name: field for field in schema or _infer_schema(rows, columns)}
    fields |= {field.name: field for field in _infer_schema([predicted], [*predicted])}
    return Parquet(f".{file_format}", pa.schema(list(fields.values())))


def read_schema(paths: list[str]) -> pa.Schema | None:
    """Returns the schema of the first Parquet file that can be read.

    Metadata, which pandas adds, is left out.
    """
    for path in paths:
        with FileSystems.open(path) as file, contextlib.suppress(pa.ArrowInvalid):
            return parquet.read_schema(file).remove_metadata()
    return None


def _infer_schema(rows: list[dict[str, Any]], columns: list[str]) -> pa.Schema:
    fields = []
    for column in columns:
        try:
            dtype = _infer_type([row.get(column) for row in rows])
        except (pa.ArrowException, OverflowError) as error:
            raise UsageError(
                f"column {column} of the first {len(rows)} rows is of several types "
                f"({error}), which Parquet cannot hold; take --output-format jsonl"
            ) from error
        # Of a column that is empty so far, text is the best guess.
        fields.append(
            pa.field(column, pa.string() if pa.types.is_null(dtype) else dtype)
        )
    return pa.schema(fields)


def _infer_type(values: list[Any]) -> pa.DataType:
    try:
        return pa.array(values).type
    except (OverflowError, pa.ArrowInvalid):
        # A row with an integer of more than 64 bits is refused later.
        fitting = [v for v in values if not isinstance(v, int) or v.bit_length() < 64]
        return pa.array(fitting).type
