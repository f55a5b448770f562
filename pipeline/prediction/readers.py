"""Reads rows of files of four formats, in order and in bounded memory."""

from __future__ import annotations

import contextlib
import glob
import gzip
import io
import json
import os
import re
import zlib
from collections.abc import Iterator
from typing import IO, Any, cast

import pyarrow as pa
from pyarrow import parquet

from pipeline.config.errors import UsageError
from pipeline.inputs.examples import tables
from pipeline.inputs.row_errors import Location, RowError

TSV, JSONL, PARQUET, TFRECORD = FORMATS = ("tsv", "jsonl", "parquet", "tfrecord")

_SUFFIXES = {
    TSV: re.compile(r"\.tsv(\.gz)?$"),
    JSONL: re.compile(r"\.jsonl(\.gz)?$"),
    PARQUET: re.compile(r"\.parquet$"),
    # TFX names its own `data_tfrecord-00000-of-00001.gz`.
    TFRECORD: re.compile(r"[._]tf_?record"),
}
_ROWS_AT_A_TIME = 1024
_BUFFER_BYTES = 1 << 20
_SURROGATE = re.compile(r"\\u[dD][89a-fA-F]")
# Raised for a file that is truncated, or not of the format of its name.
_DAMAGE = (ValueError, EOFError, zlib.error, gzip.BadGzipFile)
# Values that Python cannot hold: invalid UTF-8, dates after 9999, unknown time zones.
_UNREADABLE = (ValueError, OverflowError, KeyError, pa.ArrowException)

# Values by column, a serialized `tf.Example`, or why there is neither.
Row = dict[str, Any] | bytes | RowError


def find_files(source: str, file_format: str | None = None) -> tuple[str, list[str]]:
    """Returns the format and the paths of the files to read.

    Args:
      source: A file, a directory or a glob, local or remote.
      file_format: One of `FORMATS`; None derives it from the names of the files.

    Raises:
      UsageError: There is no file, or the files have several formats or none.
    """
    paths, is_directory = _match(source)
    if is_directory:
        known = [path for path in paths if file_format or _format_of(path)]
        paths = [p for p in known if not os.path.basename(p).startswith((".", "_"))]
    if not paths:
        raise UsageError(
            f"--input {source} matches no file; give a file, a directory or a glob of "
            ".tsv, .jsonl, .parquet or .tfrecord files"
        )
    formats = {file_format or _format_of(path) or "unknown" for path in paths}
    if len(formats) > 1 or "unknown" in formats:
        raise UsageError(
            f"--input {source} has files of the formats {', '.join(sorted(formats))}; "
            f"give a glob of one, or set it with --format {'|'.join(FORMATS)}"
        )
    return formats.pop(), paths


def _match(source: str) -> tuple[list[str], bool]:
    """Returns the sorted paths of a source, and whether it is a directory."""
    if "://" not in source:
        source = os.path.abspath(source)
        if os.path.isfile(source):
            return [source], False
        is_directory = os.path.isdir(source)
        pattern = f"{glob.escape(source)}/*" if is_directory else source
        paths = glob.glob(pattern, recursive=True)
        return sorted(filter(os.path.isfile, paths)), is_directory
    from apache_beam.io.filesystems import FileSystems

    files = FileSystems.match([source.rstrip("/")])[0].metadata_list
    is_directory = not files
    if is_directory:
        files = FileSystems.match([FileSystems.join(source, "*")])[0].metadata_list
    return sorted(file.path for file in files), is_directory


def _format_of(path: str) -> str | None:
    name = os.path.basename(path)
    formats = (f for f, suffix in _SUFFIXES.items() if suffix.search(name))
    return next(formats, None)


def read_rows(path: str, file_format: str) -> Iterator[tuple[Location, Row]]:
    """Reads a file.

    Args:
      path: The file, local or remote.
      file_format: One of `FORMATS`.

    Yields:
      Locations and rows in order. A damaged file ends with a `RowError`.
    """
    number = 0
    try:
        for number, row in _READERS[file_format](path):
            yield Location(path, number), row
    except _DAMAGE as error:
        message = f"the file cannot be read from here: {error}"
        yield Location(path, number + 1), RowError(message)


@contextlib.contextmanager
def _open(path: str) -> Iterator[IO[bytes]]:
    with _open_packed(path) as packed:
        if path.endswith(".gz"):
            # Beam's decompression takes a truncated gzip file for a complete one.
            with gzip.GzipFile(fileobj=packed) as file:
                yield cast(IO[bytes], file)
        else:
            yield packed


def _open_packed(path: str) -> IO[bytes]:
    if "://" not in path:
        return open(path, "rb")
    from apache_beam.io.filesystem import CompressionTypes
    from apache_beam.io.filesystems import FileSystems

    file = FileSystems.open(path, compression_type=CompressionTypes.UNCOMPRESSED)
    # The reader of Google Cloud Storage looks for the end of a line byte by byte.
    return io.BufferedReader(file, _BUFFER_BYTES)


def _read_tsv(path: str) -> Iterator[tuple[int, Row]]:
    with _open(path) as file:
        yield from tables.parse_table(file)


def _read_json_lines(path: str) -> Iterator[tuple[int, Row]]:
    with _open(path) as file:
        for number, line in enumerate(file, start=1):
            try:
                yield number, _parse_object(line)
            except RowError as error:
                yield number, error


def _parse_object(line: bytes) -> dict[str, Any]:
    try:
        text = line.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        raise RowError(f"not UTF-8: {error}") from error
    try:
        row = json.loads(text)
    except (ValueError, RecursionError) as error:  # ValueError: 4,301 digits and more
        raise RowError(f"not JSON: {error}") from error
    if not isinstance(row, dict):
        raise RowError("not a JSON object")
    if _SURROGATE.search(text):
        _refuse_surrogates(row)
    return row


def _refuse_surrogates(row: dict[str, Any]) -> None:
    """Refuses lone surrogates, which JSON can escape but no coder of Beam encodes."""
    for column, value in row.items():
        try:
            json.dumps({column: value}, ensure_ascii=False).encode()
        except UnicodeEncodeError as error:
            name = column.encode(errors="backslashreplace").decode()
            raise RowError(f"column {name} is not Unicode text: {error}") from error


def _read_parquet(path: str) -> Iterator[tuple[int, Row]]:
    with _open(path) as file:
        table = parquet.ParquetFile(file)
        first = 1
        for group in range(table.num_row_groups):
            yield from enumerate(_read_group(table, group), start=first)
            first += table.metadata.row_group(group).num_rows


def _read_group(table: parquet.ParquetFile, group: int) -> Iterator[Row]:
    """Yields the rows of a row group; each row from a corrupt page on is an error."""
    left = table.metadata.row_group(group).num_rows
    try:
        for batch in table.iter_batches(_ROWS_AT_A_TIME, row_groups=[group]):
            yield from _read_batch(batch)
            left -= batch.num_rows
    except MemoryError:  # ArrowMemoryError is an ArrowException too
        raise
    except (pa.ArrowException, OSError) as error:
        # For corrupt pages pyarrow raises OSError itself, without a number. Errors of
        # the file system fail the bundle, and Beam retries it.
        if isinstance(error, OSError) and (type(error) is not OSError or error.errno):
            raise
        for _ in range(left):
            yield RowError(f"the row group cannot be read from here: {error}")


def _read_batch(batch: pa.RecordBatch) -> list[Any]:
    try:
        return batch.to_pylist()
    except MemoryError:
        raise
    except _UNREADABLE:
        return [_read_row(batch, index) for index in range(batch.num_rows)]


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


def _read_examples(path: str) -> Iterator[tuple[int, Row]]:
    import tensorflow as tf

    compression = "GZIP" if path.endswith(".gz") else ""
    records = tf.data.TFRecordDataset(path, compression).as_numpy_iterator()
    try:
        yield from enumerate(records, start=1)
    except tf.errors.DataLossError as error:
        raise ValueError(error.message) from error


_READERS = {
    TSV: _read_tsv,
    JSONL: _read_json_lines,
    PARQUET: _read_parquet,
    TFRECORD: _read_examples,
}
