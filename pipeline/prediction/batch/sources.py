"""Where rows come from: files of four formats, read by Beam in splits."""

from __future__ import annotations

import csv
import functools
import gzip
import os
import re
import zlib
from collections.abc import Iterator
from typing import Any

import apache_beam as beam
import pyarrow as pa
from apache_beam.io import (
    filebasedsource,
    parquetio,
    range_trackers,
    textio,
    tfrecordio,
)
from apache_beam.io.filesystem import CompressionTypes
from apache_beam.io.filesystems import FileSystems
from pyarrow import parquet

from pipeline.config.errors import UsageError
from pipeline.inputs.examples import glue_files, tables
from pipeline.prediction import predictor
from pipeline.prediction.batch.rows import Place, RowError

TSV, JSONL, PARQUET, TFRECORD = FORMATS = ("tsv", "jsonl", "parquet", "tfrecord")

_SUFFIXES = {
    TSV: re.compile(r"\.tsv(\.gz)?$"),
    JSONL: re.compile(r"\.jsonl(\.gz)?$"),
    PARQUET: re.compile(r"\.parquet$"),
    # TFX's own are called `data_tfrecord-00000-of-00001.gz`.
    TFRECORD: re.compile(r"[._]tf_?record"),
}
_SPLIT_BYTES = 64 * 1024 * 1024
_ROWS_AT_A_TIME = 1024
# What is said of a file that is not what it is called, or breaks off.
_DAMAGE = (ValueError, EOFError, zlib.error, gzip.BadGzipFile, pa.ArrowInvalid)
# Values that Python cannot hold: invalid UTF-8, dates after 9999, unknown time zones.
_UNREADABLE = (ValueError, OverflowError, KeyError, pa.ArrowException)
_MAGIC_OF_PATTERNS = re.compile(r"[*?\[\]]")


def find_files(source: str, file_format: str | None = None) -> tuple[str, list[str]]:
    """Returns the format and the paths of what is to be read.

    Args:
      source: A file, a directory or a glob, local or remote.
      file_format: One of `FORMATS`; None goes by the names of the files.

    Raises:
      UsageError: There is no file, or the files are of several formats or of none.
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
    found = {file_format or _format_of(path) for path in paths}
    if len(found) > 1 or None in found:
        names = ", ".join(sorted(str(name or "unknown") for name in found))
        raise UsageError(
            f"--input {source} has files of the formats {names}; give a glob of one, "
            f"or say it with --format {'|'.join(FORMATS)}"
        )
    (name,) = found
    assert name is not None
    return name, paths


def _match(source: str) -> tuple[list[str], bool]:
    is_local = "://" not in source
    if is_local:
        source = os.path.abspath(source)
    if is_local and os.path.exists(source) and _MAGIC_OF_PATTERNS.search(source):
        raise UsageError(
            f"--input {source}: Beam takes *, ?, [ and ] in a path for a pattern; "
            "rename what has them"
        )
    if not (is_local and os.path.isdir(source)):
        files = FileSystems.match([source.rstrip("/")])[0].metadata_list
        if files or is_local:
            return sorted(file.path for file in files), False
    files = FileSystems.match([FileSystems.join(source, "*")])[0].metadata_list
    return sorted(file.path for file in files), True


def _format_of(path: str) -> str | None:
    name = os.path.basename(path)
    found = [each for each in FORMATS if _SUFFIXES[each].search(name)]
    return found[0] if found else None


class _Located:
    """Makes a source of Beam give (offset, row, record) in the place of a record.

    Beam's public transforms do not tell offsets, and end where a file is damaged.
    There the record is a `RowError`, and the last of its file.
    """

    def open_file(self, file_name: str) -> Any:
        if not file_name.endswith(".gz"):
            return super().open_file(file_name)  # type: ignore[misc]
        # Beam takes a gzip file that breaks off for one that ends.
        packed = FileSystems.open(
            file_name, compression_type=CompressionTypes.UNCOMPRESSED
        )
        return gzip.GzipFile(fileobj=packed)

    def read_records(self, file_name: str, range_tracker: Any) -> Iterator[Any]:
        records = super().read_records(file_name, range_tracker)  # type: ignore[misc]
        try:
            for record in records:
                yield range_tracker.last_record_start, None, record
        except _DAMAGE as error:
            offset = max(range_tracker.last_record_start, 0)
            yield offset, None, RowError(f"the file cannot be read from here: {error}")


class _Lines(_Located, textio._TextSource):
    def __init__(self, file_pattern: str, *, header_lines: int = 0):
        super().__init__(
            file_pattern=file_pattern,
            min_bundle_size=0,
            compression_type=CompressionTypes.AUTO,
            strip_trailing_newlines=True,
            coder=beam.coders.BytesCoder(),
            validate=False,
            skip_header_lines=header_lines,
        )


class _Examples(_Located, tfrecordio._TFRecordSource):
    def __init__(self, file_pattern: str):
        super().__init__(
            file_pattern=file_pattern,
            coder=beam.coders.BytesCoder(),
            compression_type=CompressionTypes.AUTO,
            validate=False,
        )


class _Tables(parquetio._ParquetSource):
    """Yields (offset, row, values). What cannot be read is a `RowError`.

    Beam's own `read_records` ends at a row group with a corrupt page.
    """

    def read_records(self, file_name: str, range_tracker: Any) -> Iterator[Any]:
        start = range_tracker.start_position() or 0
        file = None
        try:
            with self.open_file(file_name) as opened:
                file = parquet.ParquetFile(opened)
                for group in range(file.num_row_groups):
                    offset = parquetio._ParquetUtils.get_offset(file, group)
                    if offset < start:
                        continue
                    if not range_tracker.try_claim(offset):
                        return
                    for number, row in enumerate(_read_group(file, group)):
                        yield offset, number, row
        except _DAMAGE as error:
            # Every split opens the file. Only the first one reports that it cannot.
            if start == 0 or file is not None:
                yield start, None, RowError(f"the file cannot be read: {error}")


def _read_group(file: parquet.ParquetFile, group: int) -> Iterator[Any]:
    """Yields a value or a `RowError` for each row of a row group."""
    left = file.metadata.row_group(group).num_rows
    try:
        for batch in file.iter_batches(_ROWS_AT_A_TIME, row_groups=[group]):
            yield from _read_batch(batch)
            left -= batch.num_rows
    except MemoryError:  # pyarrow's is an ArrowException too
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


_SOURCES: dict[str, Any] = {
    TSV: functools.partial(_Lines, header_lines=1),
    JSONL: _Lines,
    PARQUET: _Tables,
    TFRECORD: _Examples,
}


class ReadRecords(beam.PTransform):
    """Reads files in splits, each record as (file, (offset, row, record))."""

    def __init__(self, file_format: str, paths: list[str]):
        """Keeps what is read.

        Args:
          file_format: One of `FORMATS`.
          paths: Of the files.
        """
        super().__init__()
        self._format = file_format
        self._paths = paths

    def expand(self, pipeline: beam.Pipeline) -> beam.PCollection:
        """Lists the files, and reads each by its ranges."""
        read = filebasedsource.ReadAllFiles(
            splittable=self._format != TFRECORD,
            compression_type=CompressionTypes.AUTO,
            desired_bundle_size=_SPLIT_BYTES,
            min_bundle_size=0,
            source_from_file=_SOURCES[self._format],
            with_filename=True,
        )
        return pipeline | beam.Create(self._paths) | read


def read_first(file_format: str, paths: list[str]) -> Iterator[tuple[str, Any]]:
    """Reads records as `ReadRecords` gives them, in this process and in order."""
    for path in paths:
        if FileSystems.match([path])[0].metadata_list[0].size_in_bytes:
            source = _SOURCES[file_format](path)
            end = range_trackers.OffsetRangeTracker.OFFSET_INFINITY
            tracker = range_trackers.OffsetRangeTracker(0, end)
            for record in source.read_records(path, tracker):
                yield path, record


class Parser:
    """Makes rows of records. One of it is kept for as long as a worker reads."""

    def __init__(self, file_format: str):
        """Keeps the format, one of `FORMATS`."""
        self._format = file_format
        self._headers: dict[str, list[str]] = {}

    def parse(
        self, path: str, record: tuple[int, int | None, Any]
    ) -> tuple[Place, Any]:
        """Returns where a record stands, and its row.

        Args:
          path: The file.
          record: What `ReadRecords` gave of it.

        Returns:
          The place, and values by column, a serialized `tf.Example`, or a `RowError`.
        """
        offset, number, content = record
        place = Place(path, offset, number)
        try:
            if isinstance(content, RowError):
                return place, content
            if self._format == TSV:
                return place, self._parse_fields(path, content)
            if self._format == JSONL:
                return place, _parse_object(content, is_first=offset == 0)
        except RowError as error:
            return place, error
        return place, content

    def _parse_fields(self, path: str, line: bytes) -> dict[str, str]:
        if path not in self._headers:
            self._headers[path] = read_header(path)
        header = self._headers[path]
        fields = _split(line)
        if len(fields) != len(header):
            raise RowError(f"{len(fields)} fields, the header has {len(header)}")
        return dict(zip(header, fields, strict=True))


def read_header(path: str) -> list[str]:
    """Returns the columns of a TSV file; those of MRPC's own archive as TFDS has them.

    Raises:
      RowError: Its first line is not text, or repeats a column.
    """
    with FileSystems.open(path) as file:
        first, second = file.readline(), file.readline()
    header = _split(first.rstrip(b"\r\n"), encoding="utf-8-sig")
    layout = glue_files.find_layout(header)
    if repeated := tables.find_repeated(header):
        raise RowError(repeated)
    if layout is None:
        return header
    return glue_files.name_columns(header, _split(second.rstrip(b"\r\n")), layout)


def _split(line: bytes, encoding: str = "utf-8") -> list[str]:
    text = _decode(line, encoding)
    try:
        return next(csv.reader([text], delimiter="\t", quoting=csv.QUOTE_NONE), [])
    except csv.Error as error:
        raise RowError(f"not a line of TSV: {error}") from error


def _parse_object(line: bytes, *, is_first: bool) -> dict[str, Any]:
    try:
        return predictor.parse_json_row(line, "utf-8-sig" if is_first else "utf-8")
    except ValueError as error:
        raise RowError(str(error)) from error


def _decode(line: bytes, encoding: str) -> str:
    try:
        return line.decode(encoding)
    except UnicodeDecodeError as error:
        raise RowError(f"not UTF-8: {error}") from error
