"""Reads rows of CSV and TSV.

pyarrow's reader is faster, but reports neither the line of a row nor that of a byte
that does not decode, and reads no field that another program quoted by backslashes.
"""

from __future__ import annotations

import csv
import itertools
from collections import Counter, deque
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager
from typing import IO

from modules.config.task import TaskConfig
from pipeline.config.sections import DataConfig
from pipeline.inputs.rows import dialects, glue_files, text_lines
from pipeline.inputs.rows.row_errors import FileError, RowError

# Of a field. An unclosed quote takes in the rest of the file, up to this.
_MOST_CHARACTERS = 1 << 24


class LeftOutError(RowError):
    """A malformed row that GLUE's archive is known to have, and TFDS leaves out."""


def read_table(
    path: str,
    open_file: Callable[[], AbstractContextManager[IO[bytes]]],
    settings: DataConfig,
    default_delimiter: str,
    task: TaskConfig | None = None,
) -> Iterator[tuple[int, dict[str, str] | RowError]]:
    """Reads a table with a header, or a file of GLUE's archives.

    Args:
      path: The path of the file, for messages.
      open_file: Opens it.
      settings: Its encoding, delimiter and quoting.
      default_delimiter: That of the format: a comma, or a tab.
      task: Its GLUE task decides which layout of an archive the file may have. That of
        MRPC is recognized without.

    Yields:
      The number of the row's first line from 1, and the row by column or why it cannot
      be read. After an error in the header there are no rows.
    """
    dialect = find_dialect(path, open_file, settings, default_delimiter)
    with open_file() as file:
        lines = text_lines.decode(file, settings.encoding, dialect.newline)
        for _ in range(dialect.skipped_lines):
            next(lines, None)
        yield from _to_rows(_records(lines, dialect, settings.encoding), task)


def find_dialect(
    path: str,
    open_file: Callable[[], AbstractContextManager[IO[bytes]]],
    settings: DataConfig,
    default_delimiter: str,
) -> dialects.Dialect:
    """Finds the dialect of a file; see `dialects.find_dialect`."""
    with open_file() as file:
        return dialects.find_dialect(path, file, settings, default_delimiter)


def _records(
    lines: Iterator[str], dialect: dialects.Dialect, encoding: str
) -> Iterator[tuple[int, list[str] | RowError]]:
    """Yields the number of the first line and the fields of each record.

    A record over several lines that is malformed, or has another number of fields than
    the first record, is refused for its first line alone: a stray quote must not hide
    the rows after it.
    """
    source = _Rewindable(lines, dialect.skipped_lines)
    csv.field_size_limit(_MOST_CHARACTERS)
    reader = csv.reader(map(dialect.normalize, source), **dialect.reader_options)
    columns = None
    while True:
        source.taken.clear()
        number = source.number + 1
        fields: list[str] | RowError | None
        try:
            fields = next(reader, None)
        except csv.Error as error:
            fields = RowError(
                f"not a line of this dialect ({dialect}): {error}; correct it, or set "
                "data.quoting or data.delimiter"
            )
        if fields is None:
            return
        columns = columns or len(fields if isinstance(fields, list) else ())
        if isinstance(fields, list) and not fields and dialect.quoting != dialects.NONE:
            continue  # a blank line, as pandas skips it
        is_malformed = not isinstance(fields, list) or len(fields) != columns
        if is_malformed and len(source.taken) > 1:
            last = source.number
            source.rewind()
            fields = RowError(
                f"a quoted field of it ends in line {last}, or not at all, and the row "
                f"does not have the {columns} fields of the header; close the quote"
            )
        try:
            for offset, line in enumerate(source.taken):
                place = f"line {number + offset}, " if offset else ""
                text_lines.check(line, encoding, place)
        except RowError as error:
            fields = error
        yield number, fields


class _Rewindable:
    """Lines, which can be taken again.

    Attributes:
      taken: The lines of the current record.
      number: The number of the last line taken.
    """

    def __init__(self, lines: Iterator[str], number: int) -> None:
        self._lines = lines
        self._again: deque[str] = deque()
        self.taken: list[str] = []
        self.number = number

    def __iter__(self) -> _Rewindable:
        return self

    def __next__(self) -> str:
        line = self._again.popleft() if self._again else next(self._lines)
        self.taken.append(line)
        self.number += 1
        return line

    def rewind(self) -> None:
        """Gives back all lines of the record but the first."""
        self._again.extendleft(reversed(self.taken[1:]))
        self.number -= len(self.taken) - 1
        del self.taken[1:]


def _to_rows(
    records: Iterator[tuple[int, list[str] | RowError]], task: TaskConfig | None
) -> Iterator[tuple[int, dict[str, str] | RowError]]:
    first, header = next(records, (0, RowError("")))
    if isinstance(header, RowError):
        if first:
            yield first, FileError(f"the header: {header}")
        return
    layout = glue_files.find_layout(header, task)
    if layout and glue_files.is_headerless(layout, header):
        records = itertools.chain([(first, header)], records)
        header = list(layout.headerless)
    else:
        repeated = _find_repeated(header)
        if repeated:
            yield first, repeated
            return
    is_named = False
    for number, fields in records:
        if isinstance(fields, RowError):
            yield number, fields
            continue
        if layout and not is_named:
            header = glue_files.name_columns(header, fields, layout, task)
            is_named = True
        yield number, _to_row(header, fields, layout)


def _to_row(
    header: list[str], fields: list[str], layout: glue_files.Layout | None
) -> dict[str, str] | RowError:
    row = dict(zip(header, fields, strict=False))
    if layout and glue_files.is_left_out(row, header, layout):
        return LeftOutError()
    if len(fields) != len(header):
        return RowError(f"{len(fields)} fields, the header has {len(header)}")
    return row


def _find_repeated(header: list[str]) -> FileError | None:
    repeated = [repr(name) for name, count in Counter(header).items() if count > 1]
    if not repeated:
        return None
    return FileError(
        f"the header has the column {', '.join(repeated)} more than once; rename or "
        "remove the others"
    )
