"""Finds files, and reads the rows of an open one, in order and in bounded memory."""

from __future__ import annotations

import glob
import itertools
import json
import os
import re
from collections.abc import Iterator
from typing import IO, Any

import pyarrow as pa
from pyarrow import parquet

from ingest.config import DataConfig, FileFormat
from ingest.rows import text_lines
from ingest.rows.formats import FORMATS, format_of
from ingest.rows.row_errors import FileError, Row, RowError
from modules import uris
from modules.errors import UsageError

DEFAULTS = DataConfig()
_ROWS_AT_A_TIME = 1024
_SURROGATE = re.compile(r"\\u[dD][89a-fA-F]")
_ARRAY = re.compile(r"\[\s*\{")  # of objects
_ARROW_ERRORS = (pa.ArrowException, OSError)
# Raised for values that Python cannot represent: invalid UTF-8, dates after 9999,
# unknown time zones.
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
            f"--input {source} has files of the formats {names}; give a glob of one "
            f"format, or set the format with --format {'|'.join(FORMATS)}"
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
    # Every command imports this file, and `--help` must not wait for Beam.
    from apache_beam.io.filesystems import FileSystems

    files = FileSystems.match([source.rstrip("/")])[0].metadata_list
    is_directory = not files
    if is_directory:
        files = FileSystems.match([FileSystems.join(source, "*")])[0].metadata_list
    return sorted(file.path for file in files), is_directory


def read_json_lines(file: IO[bytes], encoding: str) -> Iterator[tuple[int, Row]]:
    """Yields the number of each line from 1, and its object or why it is not one.

    JSON over several lines, such as an array, ends the file.
    """
    numbered = enumerate(text_lines.decode(file, encoding), start=1)
    # Blank lines are skipped, as pandas does.
    filled = ((number, line) for number, line in numbered if line.strip())
    start = list(itertools.islice(filled, 2))
    first, following = ([line for _, line in start] + ["", ""])[:2]
    if _starts_other_json(first, following):
        jq = "." if first.lstrip()[0] == "{" else "'.[]'"
        message = (
            "each line must be a JSON object, and this one starts JSON over several "
            f"lines, or an array; convert it: jq -c {jq} IN.json > OUT.jsonl"
        )
        yield start[0][0], FileError(message)
        return
    for number, line in itertools.chain(start, filled):
        try:
            text_lines.check(line, encoding)
            yield number, _parse_object(line)
        except RowError as error:
            yield number, error


def _starts_other_json(line: str, following: str) -> bool:
    """Returns whether a line starts JSON over several lines, or an array of objects.

    Args:
      line: The first line.
      following: The next one. If it starts an object, the first may be cut instead.
    """
    line = line.strip()
    if _ARRAY.match(line):
        return True
    try:
        json.loads(line)
    except json.JSONDecodeError as error:  # at its end, if the next line continues it
        is_open = line[:1] in ("{", "[") and error.pos == len(line)
        is_cut = not following or following.lstrip().startswith("{")
        return is_open and (line[-1] in "{[" or not is_cut)
    except (ValueError, RecursionError):
        pass  # `_parse_object` reports it
    return False


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


def read_parquet(file: IO[bytes]) -> Iterator[tuple[int, Row]]:
    """Yields the number of each row from 1, and the row or why it cannot be read."""
    table = parquet.ParquetFile(file)
    first = 1
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


def read_arrow(file: IO[bytes]) -> Iterator[tuple[int, Row]]:
    """Reads Arrow's streaming format, as Hugging Face `datasets` writes it."""
    first = 1
    try:
        for batch in pa.ipc.open_stream(file):
            for start in range(0, batch.num_rows, _ROWS_AT_A_TIME):
                rows = _read_batch(batch.slice(start, _ROWS_AT_A_TIME))
                yield from enumerate(rows, start=first + start)
            first += batch.num_rows
    except _ARROW_ERRORS as error:
        if not _is_damage(error):
            raise
        raise ValueError(str(error)) from error


def read_examples(path: str) -> Iterator[tuple[int, Row]]:
    """Yields the number of each record from 1, and the record."""
    # Every command imports this file, and `--help` must not wait for TensorFlow.
    import tensorflow as tf

    # TFRecordDataset does not detect the compression.
    compression = "GZIP" if path.endswith(".gz") else ""
    records = tf.data.TFRecordDataset(path, compression).as_numpy_iterator()
    try:
        yield from enumerate(records, start=1)
    except tf.errors.DataLossError as error:
        raise ValueError(error.message) from error
