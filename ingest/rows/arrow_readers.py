"""Reads the rows of an open Parquet or Arrow file with pyarrow, in bounded memory.

`row_file` imports it at the first such file: the runtime may lack pyarrow.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from typing import IO, Any

import pyarrow as pa
from pyarrow import parquet

from contracts.settings.data import FileFormat
from ingest.rows.formats import PARQUET
from ingest.rows.readers import find_repeated
from ingest.rows.row_errors import Row, RowError

_ROWS_AT_A_TIME = 1024
_PIECE_BYTES = 1 << 24
_ERRORS = (pa.ArrowException, OSError)
_BINARY = {pa.string(): pa.binary(), pa.large_string(): pa.large_binary()}
# Raised for values that Python cannot represent: invalid UTF-8, dates after 9999,
# unknown time zones.
_UNREADABLE = (ValueError, OverflowError, KeyError, pa.ArrowException)


def read(file: IO[bytes], file_format: FileFormat) -> Iterator[tuple[int, Row]]:
    """Yields the number of each row from 1, and the row or why it cannot be read."""
    if file_format == PARQUET:
        return read_parquet(file)
    return _read_arrow(file)


def read_schema(file: IO[bytes], file_format: FileFormat) -> pa.Schema:
    """Returns the schema of a file.

    Raises:
      ValueError: The file is damaged.
    """
    with _raising_value_errors():
        if file_format == PARQUET:
            return parquet.read_schema(file)
        return _open_arrow(file).schema


def read_parquet(file: IO[bytes]) -> Iterator[tuple[int, Row]]:
    """Yields the number of each row from 1, and the row or why it cannot be read."""
    first = 1
    with _raising_value_errors():
        table = parquet.ParquetFile(file)
        _refuse_repeated_columns(table.schema_arrow)
        for group in range(table.num_row_groups):
            yield from enumerate(_read_group(table, group), start=first)
            first += table.metadata.row_group(group).num_rows


def _read_group(table: parquet.ParquetFile, group: int) -> Iterator[Row]:
    """Yields the rows of a row group; after a corrupt page, an error for each row."""
    left = table.metadata.row_group(group).num_rows
    try:
        for batch in table.iter_batches(_ROWS_AT_A_TIME, row_groups=[group]):
            yield from _read_batch(batch)
            left -= batch.num_rows
    except _ERRORS as error:
        if not _is_damage(error):
            raise
        for _ in range(left):
            yield RowError(f"the row group cannot be read from here: {error}")


@contextlib.contextmanager
def _raising_value_errors() -> Iterator[None]:
    """Turns pyarrow's errors about the content of a file into value errors."""
    try:
        yield
    except _ERRORS as error:
        if not _is_damage(error):
            raise
        raise ValueError(str(error)) from error


def _refuse_repeated_columns(schema: pa.Schema) -> None:
    """Refuses columns of one name, of which a row would keep the last."""
    repeated = find_repeated(schema.names)
    if repeated:
        raise ValueError(
            f"it has the column {repeated} more than once; rename or remove the others"
        )


def _is_damage(error: Exception) -> bool:
    """Returns whether an error of pyarrow is about the content of a file.

    For corrupt pages pyarrow raises OSError itself, without a number. Errors of the
    file system fail the bundle, and Beam retries it.
    """
    if isinstance(error, MemoryError):  # ArrowMemoryError is an ArrowException too
        return False
    return not isinstance(error, OSError) or (
        type(error) is OSError and not error.errno
    )


def _read_batch(batch: pa.RecordBatch) -> list[Any]:
    _validate(batch)
    try:
        return batch.to_pylist()
    except MemoryError:
        raise
    except _UNREADABLE:
        return [_read_row(batch, index) for index in range(batch.num_rows)]


def _validate(batch: pa.RecordBatch) -> None:
    """Refuses offsets outside of a column, on which pyarrow aborts the process.

    Invalid UTF-8, which the full validation refuses too, is reported by row.

    Raises:
      pa.ArrowInvalid: The batch is corrupt.
    """
    try:
        batch.validate(full=True)
    except pa.ArrowInvalid:
        for column in batch.columns:
            if column.type in _BINARY:
                buffers, offset = column.buffers(), column.offset
                column = pa.Array.from_buffers(
                    _BINARY[column.type], len(column), buffers, offset=offset
                )
            column.validate(full=True)


def _read_row(batch: pa.RecordBatch, index: int) -> dict[str, Any] | RowError:
    row = {}
    for name, column in zip(batch.schema.names, batch.columns, strict=True):
        try:
            row[name] = column[index].as_py()
        except MemoryError:
            raise
        except _UNREADABLE as error:
            return RowError(f"column {name} has a value that cannot be read: {error}")
    return row


def _read_arrow(file: IO[bytes]) -> Iterator[tuple[int, Row]]:
    """Reads Arrow's streaming format, as Hugging Face `datasets` writes it."""
    first = 1
    with _raising_value_errors():
        stream = _open_arrow(file)
        _refuse_repeated_columns(stream.schema)
        for batch in stream:
            for start in range(0, batch.num_rows, _ROWS_AT_A_TIME):
                rows = _read_batch(batch.slice(start, _ROWS_AT_A_TIME))
                yield from enumerate(rows, start=first + start)
            first += batch.num_rows


def _open_arrow(file: IO[bytes]) -> pa.ipc.RecordBatchStreamReader:
    """Opens a file of Arrow's streaming format."""
    return pa.ipc.open_stream(pa.PythonFile(_InPieces(file), mode="r"))


class _InPieces:
    """A file that takes no memory for bytes that it does not have.

    A corrupt length makes pyarrow request exabytes.
    """

    closed = False

    def __init__(self, file: IO[bytes]) -> None:
        self._file = file

    def read(self, size: int) -> bytes:
        pieces = []
        while size and (piece := self._file.read(min(size, _PIECE_BYTES))):
            pieces.append(piece)
            size -= len(piece)
        return b"".join(pieces)
