"""Reads rows of CSV and TSV.

pyarrow's reader is faster, but does not report the line of a row, or of a byte that
does not decode. It cannot read fields whose quotes are escaped by backslashes.
"""

from __future__ import annotations

import contextlib
import csv
import io
import itertools
from collections import deque
from collections.abc import Iterator
from typing import IO

from contracts import wording
from contracts.task.definition import TaskConfig
from ingest.rows import dialects, glue_files, text_lines
from ingest.rows.readers import find_repeated
from ingest.rows.row_errors import DAMAGE, FileError, RowError

# Of a field, which an unclosed quote extends to the end of the file.
_MOST_CHARACTERS = 1 << 24
_BATCH_CHARACTERS = 1 << 15


class LeftOutError(RowError):
    """A malformed row of GLUE's archive that TFDS leaves out, too."""


def read_table(
    file: IO[bytes], dialect: dialects.Dialect, task: TaskConfig | None = None
) -> Iterator[tuple[int, dict[str, str] | RowError]]:
    """Reads a table with a header, or a file of GLUE's archives.

    Args:
      file: A buffered file, which is read from its start.
      dialect: How it separates and quotes its fields.
      task: Its GLUE task decides which layout of an archive the file may have. MRPC's
        layout is recognized without a task.

    Yields:
      The number of the row's first line from 1, and the row by column or why it cannot
      be read. An error in the header ends the table.
    """
    records = _records(_decode(file, dialect), dialect)
    dropped: list[str] = []
    layout: glue_files.Layout | None = None
    first, header = next(records, (0, RowError("")))
    if first and dialect.columns:
        records = itertools.chain([(first, header)], records)
        header = list(dialect.columns)
    elif isinstance(header, RowError):
        if first:
            error = FileError(f"the header: {header}")
            error.__cause__ = header
            yield first, error
        return
    elif (layout := glue_files.find_layout(header, task)) and glue_files.is_headerless(
        layout, header
    ):
        records = itertools.chain([(first, header)], records)
        header = list(layout.headerless)
    else:
        header = _name_columns(header, dialect.dropped)
        dropped = [header[index] for index in dialect.dropped]
        repeated = find_repeated(header)
        if repeated:
            message = (
                f"the header has the column {repeated} more than once; rename or "
                "remove the others, or, if the file has no header, set `data.columns`"
            )
            yield first, FileError(message)
            return
    is_named = False
    for number, fields in records:
        if isinstance(fields, RowError):
            yield number, fields
            continue
        if layout and not is_named:
            header = glue_files.name_columns(header, fields, layout, task)
            is_named = True
        row = dict(zip(header, fields, strict=False))
        for name in dropped:
            row.pop(name, None)
        if layout and glue_files.is_left_out(row, header, layout):
            yield number, LeftOutError()
        elif len(fields) == len(header) or (
            len(fields) < len(header)
            and dialect.dropped.issuperset(range(len(fields), len(header)))
        ):
            yield number, row
        else:
            owner = "data.columns" if dialect.columns else "the header"
            message = (
                f"{wording.count(len(fields), 'field')}, {owner} has {len(header)}"
            )
            yield number, RowError(message)


def read_columns(file: IO[bytes], dialect: dialects.Dialect) -> list[str]:
    """Returns the names of the columns that `read_table` yields; none without header.

    It has the arguments of `read_table`.
    """
    if dialect.columns:
        return list(dialect.columns)
    header = read_first(file, dialect)
    if header is None:
        return []
    names = enumerate(_name_columns(header, dialect.dropped))
    columns = [name for index, name in names if index not in dialect.dropped]
    layout = glue_files.find_layout(columns)
    return glue_files.name_columns(columns, [], layout) if layout else columns


def read_first(file: IO[bytes], dialect: dialects.Dialect) -> list[str] | None:
    """Returns the fields of the first line; None if it is missing or malformed.

    It has the arguments of `read_table`.
    """
    lines = _decode(file, dialect)
    _, first = next(_records(lines, dialect), (0, RowError("")))
    lines.detach()  # deleted, it would close the file
    return None if isinstance(first, RowError) else first


def find_empty_columns(file: IO[bytes], dialect: dialects.Dialect) -> frozenset[int]:
    """Returns the indices of the columns that have neither a name nor a value.

    Spreadsheets save such columns. The file is read to its end only if there are some.
    It has the arguments of `read_table`.
    """
    lines = _decode(file, dialect)
    empty: set[int] = set()
    with contextlib.suppress(*DAMAGE):  # `read_table` reports it
        for index, (_, fields) in enumerate(_records(lines, dialect)):
            if isinstance(fields, RowError):
                continue
            filled = {column for column, value in enumerate(fields) if value.strip()}
            empty = empty - filled if index else {*range(len(fields))} - filled
            if not empty:
                break
    lines.detach()  # deleted, it would close the file
    return frozenset(empty)


def _name_columns(header: list[str], dropped: frozenset[int]) -> list[str]:
    """Returns the names of columns; one without a name gets that of pandas.

    The only such column that is not dropped, the index of pandas, keeps an empty name.
    """
    unnamed = [index for index, name in enumerate(header) if not name.strip()]
    is_only = len({*unnamed} - dropped) == 1
    names = list(header)
    for index in unnamed:
        name = "" if is_only and index not in dropped else f"Unnamed: {index}"
        while name and name in names:  # another column's own name
            name += ".1"
        names[index] = name
    return names


def _decode(file: IO[bytes], dialect: dialects.Dialect) -> io.TextIOWrapper:
    return text_lines.decode(file, dialect.encoding, dialect.newline)


def _records(
    lines: Iterator[str], dialect: dialects.Dialect
) -> Iterator[tuple[int, list[str] | RowError]]:
    """Yields the number of the first line and the fields of each record.

    Lines that are one record each are parsed in batches. All others are parsed one by
    one, to find the malformed line.
    """
    source = _Rewindable(lines, dialect.skipped_lines)
    for _ in range(dialect.skipped_lines):
        next(lines, None)
    csv.field_size_limit(_MOST_CHARACTERS)  # of the process; a reader has no limit
    slow = _records_by_line(source, dialect)
    first = next(slow, None)
    if first is None:
        return
    yield first
    columns = len(first[1]) if isinstance(first[1], list) else 0
    while batch := source.take_batch():
        start = source.number + 1 - len(batch)
        records = _parse_batch(batch, dialect, columns)
        if records is not None:
            yield from enumerate(records, start)
            continue
        end = source.number
        source.put_back(batch)
        while source.number < end:
            record = next(slow, None)
            if record is None:
                return
            yield record


def _parse_batch(
    batch: list[str], dialect: dialects.Dialect, columns: int
) -> list[list[str]] | None:
    """Returns the fields of lines; None if one is not a whole, well-formed record."""
    if not text_lines.are_decoded(batch):
        return None
    if dialect.quoting == dialects.BACKSLASH:
        batch = list(map(dialect.normalize, batch))
    try:
        records = list(csv.reader(batch, **dialect.reader_options))
    except csv.Error:
        return None
    is_regular = len(records) == len(batch) and set(map(len, records)) == {columns}
    return records if is_regular else None


def _records_by_line(
    source: _Rewindable, dialect: dialects.Dialect
) -> Iterator[tuple[int, list[str] | RowError]]:
    """Yields the number of the first line and the fields of each record.

    If a record over several lines is malformed, or has another number of fields than
    the first record, only its first line is refused. A stray quote must not hide the
    rows after it.
    """
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
                "`data.quoting` or `data.delimiter`"
            )
        if fields is None:
            return
        if (
            isinstance(fields, list)
            and len(fields) < (columns or 1)
            and not "".join(fields).strip()
        ):
            continue  # a blank line, as pandas skips it
        columns = columns or len(fields if isinstance(fields, list) else ())
        is_malformed = not isinstance(fields, list) or len(fields) != columns
        if is_malformed and len(source.taken) > 1:
            last = source.number
            source.rewind()
            fields = RowError(
                f"a quoted field that starts here ends in line {last} or not at all, "
                f"and the row does not have the header's {columns} fields; close the "
                "quote"
            )
        try:
            for offset, line in enumerate(source.taken):
                place = f"line {number + offset}, " if offset else ""
                text_lines.check(line, dialect.encoding, place)
        except RowError as error:
            fields = error
        yield number, fields


class _Rewindable:
    """Lines that can be put back and taken again.

    Attributes:
      taken: The lines of the current record.
      number: The number of the last line taken.
    """

    def __init__(self, lines: Iterator[str], number: int) -> None:
        self._lines = lines
        self._again: deque[str] = deque()
        self.taken: list[str] = []
        self.number = number
        self._damage: Exception | None = None

    def __iter__(self) -> _Rewindable:
        return self

    def __next__(self) -> str:
        if self._damage is not None and not self._again:
            raise self._damage
        line = self._again.popleft() if self._again else next(self._lines)
        self.taken.append(line)
        self.number += 1
        return line

    def take_batch(self) -> list[str]:
        """Takes the next lines, outside of a record; empty at the end of the file."""
        batch: list[str] = []
        characters = 0
        while characters < _BATCH_CHARACTERS and (self._again or not self._damage):
            try:
                line = self._again.popleft() if self._again else next(self._lines)
            except StopIteration:
                break
            except DAMAGE as error:  # the lines before it come first
                self._damage = error
                break
            batch.append(line)
            characters += len(line)
        if not batch and self._damage is not None:
            raise self._damage
        self.number += len(batch)
        return batch

    def put_back(self, batch: list[str]) -> None:
        """Puts the lines of a batch back."""
        self._again.extendleft(reversed(batch))
        self.number -= len(batch)

    def rewind(self) -> None:
        """Puts all lines of the record back but the first."""
        self._again.extendleft(reversed(self.taken[1:]))
        self.number -= len(self.taken) - 1
        del self.taken[1:]
