"""A file of rows of any format; its dialect and hash are found once."""

from __future__ import annotations

import contextlib
import dataclasses
import gzip
import hashlib
import importlib.util
import io
from collections.abc import Iterator
from typing import IO, cast

from contracts import fingerprint, wording
from contracts.errors import UsageError
from contracts.settings.data import DataConfig, FileFormat
from contracts.storage import uris
from contracts.task.definition import TaskConfig
from ingest.rows import delimited, dialects, readers, remote_rows
from ingest.rows.encoding_advice import advise
from ingest.rows.formats import ARROW, CSV, DELIMITED, JSONL, PARQUET, TFRECORD
from ingest.rows.row_errors import (
    DAMAGE,
    EncodingError,
    FileError,
    Location,
    Row,
    RowError,
    VanishedFileError,
)

_BUFFER_BYTES = 1 << 20
_OF_PYARROW = (PARQUET, ARROW)


class RowFile:
    """A file of rows.

    Args:
      path: The file, local or remote.
      file_format: Its format.
      settings: How text is encoded, how fields are separated and quoted, and the names
        of the columns of a file without a header.

    Raises:
      UsageError: `data.columns` is set, and the format has names of columns. Or the
        package that reads the format is not installed.
    """

    def __init__(
        self,
        path: str,
        file_format: FileFormat,
        settings: DataConfig = readers.DEFAULTS,
    ) -> None:
        if settings.columns and file_format not in DELIMITED:
            raise columns_error(path, file_format)
        if file_format in _OF_PYARROW and not importlib.util.find_spec("pyarrow"):
            raise UsageError(
                path,
                f"it is {file_format.capitalize()}, which needs pyarrow",
                advice="run `pip install pyarrow`, or write .csv, .tsv or .jsonl",
                name="E-format-unknown",
            )
        self.path = path
        self.file_format = file_format
        self._settings = settings
        self._dialect: dialects.Dialect | None = None
        self._sha256: str | None = None
        self._advice: str | None = None

    @property
    def sha256(self) -> str:
        """SHA-256 of its bytes. A file that was read to its end is not read again."""
        if self._sha256 is None:
            with _naming_vanished_file(self.path):
                self._sha256 = fingerprint.of_file(self.path)
        return self._sha256

    def describe_dialect(self) -> str:
        """Returns the format for people, with the dialect of CSV and TSV.

        Raises:
          UsageError: The file is damaged, or its dialect is ambiguous.
        """
        if self.file_format not in DELIMITED:
            return self.file_format
        if self._dialect is None:
            with self._refusing_damage(), self._open() as file:
                self._find_dialect(file)
        return f"{self.file_format}: {self._dialect}"

    def read_columns(self) -> list[str]:
        """Returns the names of the columns, which a file without rows has, too.

        JSON lines and TFRecords have none.

        Raises:
          UsageError: The file is damaged, or its dialect is ambiguous.
        """
        with self._refusing_damage(), self._open() as file:
            if self.file_format in DELIMITED:
                return delimited.read_columns(file, self._find_dialect(file))
            if self.file_format in _OF_PYARROW:
                from ingest.rows import arrow_readers

                return list(arrow_readers.read_schema(file, self.file_format).names)
        return []

    def read(self, task: TaskConfig | None = None) -> Iterator[tuple[Location, Row]]:
        """Reads the file, which is opened once.

        Args:
          task: Its GLUE task decides which layout of GLUE's archives a TSV file may
            have.

        Yields:
          Locations and rows in order. A damaged file ends with a `FileError`. The first
          error about the encoding has advice from all of the file, which is read again
          for it, once for all passes.

        Raises:
          UsageError: The delimiter of the file is ambiguous, or the file changed or
            vanished since it was listed.
        """
        number, is_advised = 0, False
        try:
            for number, row in self._read(task):
                if not is_advised and isinstance(row, RowError):
                    is_advised = isinstance(row.__cause__ or row, EncodingError)
                    if is_advised:
                        advice = self._advise(can_skip=not isinstance(row, FileError))
                        row = type(row)(f"{row}; {advice}")
                yield Location(self.path, number), row
        except RowError as error:  # the start of the file has the wrong encoding
            yield Location(self.path, number + 1), FileError(str(error))
        except DAMAGE as error:
            message = f"the file cannot be read from here: {error}"
            if isinstance(error, UnicodeError) and self._is_text:
                message += f"; {self._advise(can_skip=False)}"
            yield Location(self.path, number + 1), FileError(message)

    @contextlib.contextmanager
    def _refusing_damage(self) -> Iterator[None]:
        try:
            yield
        except DAMAGE as error:
            got, advice = str(error), None
            if not isinstance(error, RowError | UnicodeError):
                got = f"the file cannot be read: {error}"
            if isinstance(error, UnicodeError) and self._is_text:
                advice = self._advise(can_skip=False)
            raise UsageError(
                self.path, got, advice=advice, name="E-file-damaged"
            ) from error

    @property
    def _is_text(self) -> bool:
        return self.file_format in (*DELIMITED, JSONL)

    def _advise(self, *, can_skip: bool) -> str:
        """Returns the advice about the encoding of the file."""
        if self._advice is None:
            with self._open() as file:
                encoding = self._settings.encoding
                self._advice = advise(file, encoding, can_skip=can_skip)
        return self._advice

    def _read(self, task: TaskConfig | None) -> Iterator[tuple[int, Row]]:
        with self._open() as file:
            if self.file_format == TFRECORD:
                from ingest.rows import record_reader

                yield from record_reader.read_examples(file)
            elif self.file_format in DELIMITED:
                dialect = self._find_dialect(file)
                yield from delimited.read_table(file, dialect, task)
            elif self.file_format == JSONL:
                yield from readers.read_json_lines(
                    file, self._settings.encoding, self.path
                )
            elif self.file_format in _OF_PYARROW:
                from ingest.rows import arrow_readers

                yield from arrow_readers.read(file, self.file_format)

    def _find_dialect(self, file: IO[bytes]) -> dialects.Dialect:
        if self._dialect is not None:
            return self._dialect
        delimiter = "," if self.file_format == CSV else "\t"
        dialect = dialects.find_dialect(self.path, file, self._settings, delimiter)
        file.seek(0)
        if names := self._settings.columns:
            first = delimited.read_first(file, dialect)
            if first is not None and len(first) != len(names):
                raise UsageError(
                    "data.columns",
                    f"{wording.count(len(names), 'name')}, {', '.join(names)}, but the "
                    f"first line of {self.path} has "
                    f"{wording.count(len(first), 'field')}: {', '.join(first):.200}",
                    advice="name each column",
                    name="E-column-missing",
                )
            if first == names:
                raise UsageError(
                    "data.columns",
                    f"the first line of {self.path} has these names, so it is a header",
                    advice="leave `data.columns` out",
                    name="E-column-missing",
                )
        else:
            dropped = delimited.find_empty_columns(file, dialect)
            dialect = dataclasses.replace(dialect, dropped=dropped)
        file.seek(0)
        self._dialect = dialect
        return dialect

    @contextlib.contextmanager
    def _open(self) -> Iterator[IO[bytes]]:
        with open_packed(self.path) as packed:
            hashed = _HashedBytes(packed)
            # The reader of Google Cloud Storage looks for the end of a line byte by
            # byte.
            buffered = io.BufferedReader(hashed, _BUFFER_BYTES)
            if self.path.lower().endswith(".gz"):
                # Beam's decompression takes a truncated gzip file for a complete one.
                with gzip.GzipFile(fileobj=buffered) as file:
                    yield cast(IO[bytes], file)
            else:
                yield buffered
        if self._sha256 and hashed.sha256 and self._sha256 != hashed.sha256:
            raise changed_error(self.path)
        self._sha256 = self._sha256 or hashed.sha256


def columns_error(path: str, file_format: str) -> UsageError:
    """Returns the error about `data.columns` for rows whose columns have names."""
    return UsageError(
        "data.columns",
        "it names the columns of CSV and TSV files without a header, but the format of "
        f"{path} is {file_format}, which has names",
        advice="leave `data.columns` out",
        name="E-column-missing",
    )


def changed_error(path: str) -> UsageError:
    """Returns the error about a file or folder that another process writes."""
    return UsageError(
        path,
        "it changed while it was read",
        advice="run again",
        name="E-data-changed",
    )


def open_packed(path: str) -> IO[bytes]:
    """Opens a file, local or remote, unbuffered and without unpacking it.

    Raises:
      VanishedFileError: A local file does not exist.
    """
    if uris.is_local(path):
        with _naming_vanished_file(path):
            return open(path, "rb", buffering=0)
    return remote_rows.open_file(path)


@contextlib.contextmanager
def _naming_vanished_file(path: str) -> Iterator[None]:
    try:
        yield
    except FileNotFoundError as error:
        raise VanishedFileError(
            path,
            "it does not exist, but it was listed before",
            advice="run again when no other process changes the data",
            name="E-data-changed",
        ) from error


class _HashedBytes(io.RawIOBase):
    """The bytes of a file, which are hashed while they are read.

    Attributes:
      sha256: Their hash after the end was read; None before, or if a part was
        skipped.
    """

    def __init__(self, file: IO[bytes]) -> None:
        self._file = file
        self._digest = hashlib.sha256()
        self._position = self._hashed = 0
        self.sha256: str | None = None

    def readable(self) -> bool:
        return True

    def seekable(self) -> bool:
        return True

    def seek(self, offset: int, whence: int = io.SEEK_SET) -> int:
        self._position = self._file.seek(offset, whence)
        return self._position

    def readinto(self, buffer: memoryview) -> int:  # type: ignore[override]
        count = self._file.readinto(buffer)  # type: ignore[attr-defined]
        end = self._position + count
        if self._position <= self._hashed < end:
            self._digest.update(buffer[self._hashed - self._position : count])
            self._hashed = end
        elif not count and self._position == self._hashed:
            self.sha256 = self._digest.hexdigest()
        self._position = end
        return count
