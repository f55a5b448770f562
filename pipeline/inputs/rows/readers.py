"""Reads rows of files of all formats, in order and in bounded memory."""

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

from modules import uris
from modules.config.task import TaskConfig
from pipeline.config.errors import UsageError
from pipeline.config.sections import DataConfig, FileFormat
from pipeline.inputs.rows import delimited, text_lines
from pipeline.inputs.rows.formats import (
    ARROW,
    CSV,
    DELIMITED,
    FORMATS,
    JSONL,
    PARQUET,
    TFRECORD,
    TSV,
    format_of,
)
from pipeline.inputs.rows.row_errors import FileError, Location, Row, RowError

DEFAULTS = DataConfig()
_DELIMITERS = {CSV: ",", TSV: "\t"}
_ROWS_AT_A_TIME = 1024
_BUFFER_BYTES = 1 << 20
_SURROGATE = re.compile(r"\\u[dD][89a-fA-F]")
# Raised for a file that is truncated, or not of the format of its name.
_DAMAGE = (ValueError, EOFError, zlib.error, gzip.BadGzipFile)
_ARROW_ERRORS = (pa.ArrowException, OSError)
# Values that Python cannot hold: invalid UTF-8, dates after 9999, unknown time zones.
_UNREADABLE = (ValueError, OverflowError, KeyError, pa.ArrowException)


def find_files(
    source: str, file_format: FileFormat | None = None
) -> tuple[FileFormat, list[str]]:
    """Returns the format and the paths of the files to read.

    Args:
      source: A file, a directory or a glob, local or remote.
      file_format: None derives it from the names of the files.

    Raises:
      UsageError: There is no file, or the files have several formats or none.
    """
    paths, is_directory = _match(source)
    if is_directory:
        known = [path for path in paths if file_format or format_of(path)]
        paths = [p for p in known if not os.path.basename(p).startswith((".", "_"))]
    if not paths:
        raise UsageError(
            f"--input {source} matches no file; give a file, a directory or a glob of "
            ".csv, .tsv, .jsonl, .parquet, .arrow or .tfrecord files"
        )
    formats = {file_format or format_of(path) for path in paths}
    (only, *others) = formats
    if others or only is None:
        names = ", ".join(sorted(name or "unknown" for name in formats))
        raise UsageError(
            f"--input {source} has files of the formats {names}; give a glob of one, "
            f"or set it with --format {'|'.join(FORMATS)}"
        )
    return only, paths


def _match(source: str) -> tuple[list[str], bool]:
    """Returns the sorted paths of a source, and whether it is a directory."""
    if uris.is_local(source):
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


def read_rows(
    path: str,
    file_format: FileFormat,
    settings: DataConfig = DEFAULTS,
    task: TaskConfig | None = None,
) -> Iterator[tuple[Location, Row]]:
    """Reads a file.

    Args:
      path: The file, local or remote.
      file_format: Its format.
      settings: How text is encoded, and fields are separated and quoted.
      task: Its GLUE task decides which layout of GLUE's archives a TSV file may have.

    Yields:
      Locations and rows in order. A damaged file ends with a `FileError`.

    Raises:
      UsageError: The delimiter of the file is ambiguous.
    """
    number = 0
    try:
        for number, row in _read(path, file_format, settings, task):
            yield Location(path, number), row
    except _DAMAGE as error:
        message = f"the file cannot be read from here: {error}"
        yield Location(path, number + 1), FileError(message)


def describe_dialect(path: str, file_format: FileFormat, settings: DataConfig) -> str:
    """Returns how a file is read, for people; its format alone if that says all."""
    if file_format not in DELIMITED:
        return file_format
    try:
        dialect = delimited.find_dialect(
            path, lambda: _open(path), settings, _DELIMITERS[file_format]
        )
    except RowError as error:
        raise UsageError(f"{path}: {error}") from error
    return f"{file_format}: {dialect}"


def _read(
    path: str,
    file_format: FileFormat,
    settings: DataConfig,
    task: TaskConfig | None,
) -> Iterator[tuple[int, Row]]:
    if file_format in DELIMITED:
        delimiter = _DELIMITERS[file_format]
        return delimited.read_table(
            path, lambda: _open(path), settings, delimiter, task
        )
    if file_format == JSONL:
        return _read_json_lines(path, settings.encoding)
    return _BINARY_READERS[file_format](path)


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
    if uris.is_local(path):
        return open(path, "rb")
    from apache_beam.io.filesystem import CompressionTypes
    from apache_beam.io.filesystems import FileSystems

    file = FileSystems.open(path, compression_type=CompressionTypes.UNCOMPRESSED)
    # The reader of Google Cloud Storage looks for the end of a line byte by byte.
    return io.BufferedReader(file, _BUFFER_BYTES)


def _read_json_lines(path: str, encoding: str) -> Iterator[tuple[int, Row]]:
    with _open(path) as file:
        lines = text_lines.decode(file, encoding)
        for number, line in enumerate(lines, start=1):
            if not line.strip():
                continue  # as pandas does
            try:
                text_lines.check(line, encoding)
                yield number, _parse_object(line)
            except RowError as error:
                yield number, error


def _parse_object(text: str) -> dict[str, Any]:
    try:
        row = json.loads(text)
    except (ValueError, RecursionError) as error:  # ValueError: 4,301 digits and more
        raise RowError(f"not JSON: {error}") from error
    if not isinstance(row, dict):
        raise RowError("not a JSON object; each line must be one")
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
    except _ARROW_ERRORS as error:
        if not _is_damage(error):
            raise
        for _ in range(left):
            yield RowError(f"the row group cannot be read from here: {error}")


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


def _read_arrow(path: str) -> Iterator[tuple[int, Row]]:
    """Reads a file of Arrow's streaming format, as Hugging Face `datasets` writes."""
    first = 1
    try:
        with _open(path) as file:
            for batch in pa.ipc.open_stream(file):
                for start in range(0, batch.num_rows, _ROWS_AT_A_TIME):
                    rows = _read_batch(batch.slice(start, _ROWS_AT_A_TIME))
                    yield from enumerate(rows, start=first + start)
                first += batch.num_rows
    except _ARROW_ERRORS as error:
        if not _is_damage(error):
            raise
        raise ValueError(str(error)) from error


def _read_examples(path: str) -> Iterator[tuple[int, Row]]:
    import tensorflow as tf

    compression = "GZIP" if path.endswith(".gz") else ""
    records = tf.data.TFRecordDataset(path, compression).as_numpy_iterator()
    try:
        yield from enumerate(records, start=1)
    except tf.errors.DataLossError as error:
        raise ValueError(error.message) from error


_BINARY_READERS = {
    PARQUET: _read_parquet,
    ARROW: _read_arrow,
    TFRECORD: _read_examples,
}
