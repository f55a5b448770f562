"""Finds files, and reads the rows of an open one, in order and in bounded memory."""

from __future__ import annotations

import contextlib
import glob
import itertools
import json
import os
import re
import struct
from collections import Counter
from collections.abc import Iterable, Iterator
from typing import IO, Any

import google_crc32c
import pyarrow as pa
from pyarrow import parquet

from contracts.errors import UsageError
from contracts.row_values import find_surrogate
from contracts.settings.data import DataConfig, FileFormat
from contracts.storage import uris
from ingest.rows import json_conversion, text_lines
from ingest.rows.formats import FORMATS, format_of
from ingest.rows.row_errors import FileError, Row, RowError

DEFAULTS = DataConfig()
_ROWS_AT_A_TIME = 1024
_PIECE_BYTES = 1 << 24
_SURROGATE = re.compile(r"\\u[dD][89a-fA-F]")
_ARRAY = re.compile(r"\[\s*\{")  # of objects
_ARROW_ERRORS = (pa.ArrowException, OSError)
_BINARY = {pa.string(): pa.binary(), pa.large_string(): pa.large_binary()}
# Of a TFRecord: https://www.tensorflow.org/tutorials/load_data/tfrecord
_HEADER = struct.Struct("<QI")  # length of the record, and its checksum
_CHECKSUM = struct.Struct("<I")
_MASK_DELTA = 0xA282EAD8
_MOST_BYTES = 1 << 31  # of a serialized protocol buffer
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
            "source",
            f"{source} matches no file",
            "a file, a directory or a glob of "
            + ", ".join(f".{name}" for name in FORMATS),
            name="E-data-not-found",
        )
    formats = {file_format or format_of(path) for path in paths}
    (only, *others) = formats
    if others or only is None:
        names = ", ".join(sorted(name or "unknown" for name in formats))
        raise UsageError(
            "source",
            f"{source} has files of the formats {names}",
            advice="give a glob of one format, or set `input_format`: "
            + ", ".join(FORMATS),
            name="E-split-unclear",
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


def read_json_lines(
    file: IO[bytes], encoding: str, path: str
) -> Iterator[tuple[int, Row]]:
    """Yields the number of each line from 1, and its object or why it is not one.

    JSON over several lines, such as an array, and an object of rows end the file.

    Args:
      file: A buffered file, which is read from its start.
      encoding: Its encoding.
      path: Its path, for messages.
    """
    lines = text_lines.decode(file, encoding)
    numbered = enumerate(lines, start=1)
    # Blank lines are skipped, as pandas does.
    filled = ((number, line) for number, line in numbered if line.strip())
    start = list(itertools.islice(filled, 2))
    first, following = ([line for _, line in start] + ["", ""])[:2]
    is_other = _starts_other_json(first, following)
    if is_other or len(start) == 1:
        lines.seek(0)
        advice = json_conversion.advise(lines, path, encoding, is_one_line=not is_other)
        if advice:
            message = f"each line must be a JSON object, and {advice}"
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
        row = json.loads(text, object_pairs_hook=_refuse_repeated_keys)
    except RowError:
        raise
    except (ValueError, RecursionError) as error:  # ValueError: 4,301 digits and more
        raise RowError(f"not JSON: {error}") from error
    if not isinstance(row, dict):
        raise RowError("not a JSON object; each line must be one")
    if _SURROGATE.search(text):
        _refuse_surrogates(row)
    return row


def _refuse_repeated_keys(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    """Returns an object; `json.loads` would keep the last of several values."""
    row = dict(pairs)
    if len(row) < len(pairs):
        repeated = find_repeated(key for key, _ in pairs)
        raise RowError(f"it has the key {repeated} more than once; keep one of them")
    return row


def find_repeated(names: Iterable[str]) -> str:
    """Returns the names that occur more than once, quoted and separated by commas."""
    return ", ".join(repr(name) for name, count in Counter(names).items() if count > 1)


def _refuse_surrogates(row: dict[str, Any]) -> None:
    """Refuses lone surrogates, which JSON can escape but no coder of Beam encodes."""
    for column, value in row.items():
        text = (
            value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)
        )
        if problem := find_surrogate(column) or find_surrogate(text):
            name = column.encode(errors="backslashreplace").decode()
            raise RowError(f"column {name} is not Unicode text: it {problem}")


def read_parquet(file: IO[bytes]) -> Iterator[tuple[int, Row]]:
    """Yields the number of each row from 1, and the row or why it cannot be read."""
    first = 1
    with raising_value_errors():
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
    except _ARROW_ERRORS as error:
        if not _is_damage(error):
            raise
        for _ in range(left):
            yield RowError(f"the row group cannot be read from here: {error}")


@contextlib.contextmanager
def raising_value_errors() -> Iterator[None]:
    """Turns pyarrow's errors about the content of a file into value errors."""
    try:
        yield
    except _ARROW_ERRORS as error:
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


def read_arrow(file: IO[bytes]) -> Iterator[tuple[int, Row]]:
    """Reads Arrow's streaming format, as Hugging Face `datasets` writes it."""
    first = 1
    with raising_value_errors():
        stream = open_arrow(file)
        _refuse_repeated_columns(stream.schema)
        for batch in stream:
            for start in range(0, batch.num_rows, _ROWS_AT_A_TIME):
                rows = _read_batch(batch.slice(start, _ROWS_AT_A_TIME))
                yield from enumerate(rows, start=first + start)
            first += batch.num_rows


def open_arrow(file: IO[bytes]) -> pa.ipc.RecordBatchStreamReader:
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


def read_examples(file: IO[bytes]) -> Iterator[tuple[int, Row]]:
    """Yields the number of each record of a TFRecord file from 1, and the record.

    TensorFlow and Beam take a gzip file that is cut between two records for a complete
    one; the gzip module does not.

    Raises:
      ValueError: A record is truncated, or its checksum is wrong.
    """
    number = 0
    while header := file.read(_HEADER.size):
        if len(header) < _HEADER.size:
            raise ValueError("the record is truncated")
        length, checksum = _HEADER.unpack(header)
        if not _is_intact(header[: -_CHECKSUM.size], checksum):
            raise ValueError("the checksum of the record's length is wrong")
        if length > _MOST_BYTES:
            raise ValueError(f"the record has {length} bytes; at most 2 GiB are read")
        content = file.read(length + _CHECKSUM.size)
        if len(content) < length + _CHECKSUM.size:
            raise ValueError("the record is truncated")
        record = content[:length]
        if not _is_intact(record, *_CHECKSUM.unpack(content[length:])):
            raise ValueError("the checksum of the record's content is wrong")
        number += 1
        yield number, record


def _is_intact(content: bytes, checksum: int) -> bool:
    """Returns whether a masked CRC-32C is that of the content."""
    crc = google_crc32c.value(content)
    return (crc >> 15 | crc << 17) + _MASK_DELTA & 0xFFFFFFFF == checksum
