"""Finds how a CSV or TSV file separates and quotes its fields.

`csv.Sniffer` guesses from the frequencies of characters, and text misleads it. Here a
delimiter must be in the header, and TSV is quoted only if a program that writes CSV
would have written the same rows: GLUE's TSV has quotes that are text.
"""

from __future__ import annotations

import codecs
import contextlib
import csv
import dataclasses
import functools
import gzip
import io
import re
import zlib
from collections.abc import Callable
from typing import IO, Any, Literal, get_args

from contracts.errors import UsageError
from contracts.settings.data import DELIMITERS, DataConfig, Quoting
from ingest.rows import text_lines

QUOTINGS: tuple[Quoting, ...] = get_args(Quoting)
DOUBLE, BACKSLASH, NONE = QUOTINGS

_DELIMITERS = {character: name for name, character in DELIMITERS.items()}
_SAMPLE_BYTES = 1 << 20
_PART_BYTES = 1 << 14
# Excel's own first line, which names the delimiter.
_EXCEL = re.compile(r"sep=(.)(\r\n|\r|\n)")
_WIDE = ("utf-16", "utf-32")
_SPECIAL = set('\t"\r\n')
_SPECIAL_IN_EXCEL = {*_SPECIAL, ","}
# Besides numbers, programs that quote all text write these values without quotes: R's
# missing and logical values, pandas' booleans.
_BARE = {"", "NA", "NaN", "nan", "inf", "-inf", "Inf", "-Inf"} | (
    {"TRUE", "FALSE", "True", "False", "true", "false", "NULL", "null"}
)
_QUOTE = '"'
_SINGLE_QUOTE = "'"
_SINGLE_QUOTED = re.compile(r"(?:^|[,;\t|])'", re.MULTILINE)
_FEW = 0.1
_LEAST_QUOTED = 2  # rows that show that `'` is a quote
_NUMBER = re.compile(r"[-+]?\d*\.?\d+([eE][-+]?\d+)?")
_QUOTED = re.compile(r'"[^"]*"')
_CARRIAGE_RETURN = re.compile(r"\r(?!\n)")  # the end of a line
# The start of a field of TSV in quotes, which may have line breaks, and its last quote.
_QUOTED_CELL = re.compile(r'(?<![^\t\r\n])"(?:[^"\t]|"")*("(?![^\t\r\n]))?')


@dataclasses.dataclass(frozen=True)
class Dialect:
    """How a file separates and quotes its fields.

    Attributes:
      delimiter: Separator of the fields.
      quoting: `double`, `backslash` or `none`, as `data.quoting`.
      newline: The end of a line, as `newline` of `io.TextIOWrapper`: with "", a
        carriage return ends a line, too.
      quote: The quote.
      skipped_lines: Lines before the header.
      dropped: Indices of the columns that have neither a name nor a value.
      columns: Names of the columns; empty if they are in the first line.
    """

    delimiter: str
    quoting: Quoting
    newline: Literal["\n", ""] = "\n"
    quote: str = _QUOTE
    skipped_lines: int = 0
    dropped: frozenset[int] = frozenset()
    columns: tuple[str, ...] = ()

    def __str__(self) -> str:
        name = _DELIMITERS.get(self.delimiter, repr(self.delimiter))
        quotes = {
            DOUBLE: f"quoted, a quote in a field is {self.quote * 2}",
            BACKSLASH: f"quoted, a quote in a field is \\{self.quote}",
            NONE: "no quoting",
        }
        text = f"{name}, {quotes[self.quoting]}"
        if self.columns:
            text += f"; without a header: {', '.join(self.columns)}"
        if self.dropped:
            columns = "column" if len(self.dropped) == 1 else "columns"
            text += f"; {len(self.dropped)} empty {columns} without a name dropped"
        return text

    @property
    def reader_options(self) -> dict[str, Any]:
        """The arguments of `csv.reader`, which gets normalized lines."""
        quoting = csv.QUOTE_NONE if self.quoting == NONE else csv.QUOTE_MINIMAL
        return {
            "delimiter": self.delimiter,
            "quotechar": self.quote,
            "strict": True,
            "quoting": quoting,
        }

    def normalize(self, line: str) -> str:
        """Returns a line with quotes written twice instead of after a backslash.

        The reader's own `escapechar` would drop the other backslashes of a text.
        """
        if self.quoting != BACKSLASH:
            return line
        return _escaped(self.quote).sub(
            lambda match: "\\" if match[1] == "\\" else self.quote * 2, line
        )


@functools.cache
def _escaped(quote: str) -> re.Pattern[str]:
    return re.compile(rf"\\([{re.escape(quote)}\\])")


def find_dialect(
    path: str, file: IO[bytes], settings: DataConfig, default_delimiter: str
) -> Dialect:
    """Finds the dialect of a file from its first MiB.

    Args:
      path: Its path, for messages.
      file: The file, which is read from its start.
      settings: Its `delimiter`, `quoting` and `quote` are used if they are set, and
        the number of its `columns`.
      default_delimiter: The format's own: a comma, or a tab.

    Raises:
      UsageError: Several delimiters fit, or no quoting does.
    """
    start = content = _read(file)
    codec = text_lines.find_codec(start, settings.encoding)
    is_whole = len(content) < _SAMPLE_BYTES
    # TSV without quotes in its first MiB may have quoted fields later, so the sample is
    # the first MiB with a quote.
    seeks_quote = default_delimiter == "\t" and not codec.startswith(_WIDE)
    quote = settings.quote or _QUOTE
    while seeks_quote and quote.encode() not in content and not is_whole:
        content = _read(file)
        is_whole = len(content) < _SAMPLE_BYTES
    if content is not start:  # the header, and the lines after the first, which is cut
        content = start.partition(b"\n")[0] + b"\n" + content.partition(b"\n")[2]
    text = codecs.getincrementaldecoder(codec)("replace").decode(content)
    excel = _EXCEL.match(text)
    text = text[excel.end() if excel else 0 :]
    delimiter = settings.delimiter or (excel[1] if excel else None)
    if settings.quote is None and settings.quoting != NONE:
        delimiters = [delimiter] if delimiter else [default_delimiter, *_DELIMITERS]
        quote = _find_quote(text, delimiters, settings, is_whole)
    # The following reads every quote as `"`.
    text = text.translate({ord(quote): _QUOTE, ord(_QUOTE): quote})
    # Excel for Mac ends rows with a carriage return, and lines of a cell with a line
    # feed.
    unquoted = _QUOTED.sub("", text) if "\r" in text else ""
    returns = len(_CARRIAGE_RETURN.findall(unquoted))
    newline: Literal["\n", ""] = "" if returns > unquoted.count("\n") else "\n"
    sample = _Sample(text, newline, is_whole)
    if delimiter is None:
        delimiter = _find_delimiter(path, sample, default_delimiter, settings)
    if newline == "":
        regular = {end: _count_regular(unquoted, end, delimiter) for end in ("", "\n")}
        if regular["\n"] > regular[""]:  # the carriage returns are in texts
            newline = "\n"
            sample = dataclasses.replace(sample, newline=newline)
    quoting = settings.quoting or _find_quoting(
        path, sample, delimiter, is_quoted=settings.quote is not None
    )
    return Dialect(
        delimiter,
        quoting,
        newline,
        quote,
        skipped_lines=1 if excel else 0,
        columns=tuple(settings.columns or ()),
    )


def _find_quote(
    text: str, delimiters: list[str], settings: DataConfig, is_whole: bool
) -> str:
    """Returns the quote: `'` if it is around all text of a column, else `"`.

    It is also `'` if its fields have delimiters, and the rows then have equally many.
    """
    if not _SINGLE_QUOTED.search(text):
        return _QUOTE
    sample = _Sample(text, "\n", is_whole)
    for delimiter in delimiters:
        for quoting in (DOUBLE, BACKSLASH):
            records = sample.parse(Dialect(delimiter, quoting, quote=_SINGLE_QUOTE))
            rows = (records or [])[0 if settings.columns else 1 :]
            if len(rows) < _LEAST_QUOTED or not _have_equal_lengths(records or []):
                continue
            columns: list[list[bool]] = [[] for _ in rows[0][1]]
            for row, fields in rows:
                quotes = _find_quotes(row, fields, delimiter, _SINGLE_QUOTE)
                if quotes is None:
                    break
                for column, field, is_quoted in zip(
                    columns, fields, quotes, strict=True
                ):
                    if field not in _BARE:
                        column.append(is_quoted)
            else:
                other = sample.parse(Dialect(delimiter, DOUBLE))
                is_needed = other is None or not _have_equal_lengths(other)
                if any(
                    column and (all(column) or (is_needed and any(column)))
                    for column in columns
                ):
                    return _SINGLE_QUOTE
    return _QUOTE


def _count_regular(unquoted: str, newline: str, delimiter: str) -> int:
    """Returns how many more lines have as many fields as the header than have not."""
    lines = filter(str.strip, io.StringIO(unquoted, newline=newline))
    counts = [line.count(delimiter) for line in lines]
    return sum(1 if count == counts[0] else -1 for count in counts)


def _read(file: IO[bytes]) -> bytes:
    """Returns the next MiB, or what can be read before a damaged part."""
    parts: list[bytes] = []
    with contextlib.suppress(EOFError, zlib.error, gzip.BadGzipFile):
        for _ in range(_SAMPLE_BYTES // _PART_BYTES):
            parts.append(file.read(_PART_BYTES))
    return b"".join(parts)


@dataclasses.dataclass(frozen=True)
class _Sample:
    """The start of a file.

    Attributes:
      text: Its text.
      newline: The end of a line.
      is_whole: Whether it is the whole file.
    """

    text: str
    newline: Literal["\n", ""]
    is_whole: bool

    def parse(self, dialect: Dialect) -> list[tuple[str, list[str]]] | None:
        """Returns the text and the fields of the records; None if one is malformed.

        Blank lines are left out, and so is a record that is cut by the sample's end.
        """
        text = io.StringIO(self.text, newline=self.newline)
        lines = list(map(dialect.normalize, text))
        reader = csv.reader(lines, **dialect.reader_options)
        records, start = [], 0
        try:
            for fields in reader:
                end = reader.line_num
                if fields and (self.is_whole or end < len(lines)):
                    record = "".join(lines[start:end]).rstrip("\r\n")
                    records.append((record, fields))
                start = end
        except csv.Error:
            if self.is_whole or reader.line_num < len(lines):
                return None
        return records

    def find_quoted(self) -> str | None:
        """Returns what is quoted in TSV, read line by line: the header, or a column.

        A header is quoted if all of its names are, and a column if all but a few of its
        values are. A line that does not reach a column does not count for it.
        """
        text = _QUOTED_CELL.sub(
            lambda cell: " ".join(cell[0].splitlines()) if cell[1] else cell[0],
            self.text,
        )
        lines = list(io.StringIO(text, newline=self.newline))
        whole = lines if self.is_whole else lines[:-1]
        rows = [line.strip("\r\n").split("\t") for line in whole if line.strip()]
        header = rows.pop(0) if rows else []
        if header and all(map(_is_wrapped, header)):
            return "header"
        for index, name in enumerate(header):
            wrapped = [_is_wrapped(row[index]) for row in rows if len(row) > index]
            if sum(wrapped) > (1 - _FEW) * len(wrapped):
                return f"column {name}"
        return None


def _find_delimiter(
    path: str, sample: _Sample, default: str, settings: DataConfig
) -> str:
    columns, consistent = {}, set()
    for delimiter in _DELIMITERS:
        parsed = (sample.parse(Dialect(delimiter, q)) for q in (DOUBLE, NONE))
        records = next(filter(None, parsed), [])
        columns[delimiter] = len(records[0][1]) if records else 0
        if _have_equal_lengths(records):
            consistent.add(delimiter)
    fitting = [d for d, number in columns.items() if number > 1]
    if settings.columns:
        expected = len(settings.columns)
        fitting = [d for d, number in columns.items() if number == expected]
    fitting = [d for d in fitting if d in consistent] or fitting
    if default in fitting or not fitting:
        return default
    if len(fitting) > 1 and columns[fitting[0]] > 1:  # one column has no delimiter
        names = " and ".join(_DELIMITERS[d] for d in fitting)
        raise UsageError(
            got=f"{path}: its fields may be separated by {names}; set data.delimiter, "
            f"for example --set data.delimiter={_DELIMITERS[fitting[0]]}",
            name="E-dialect-unclear",
        )
    return fitting[0]


def _find_quoting(
    path: str, sample: _Sample, delimiter: str, *, is_quoted: bool
) -> Quoting:
    if '"' not in sample.text:
        return NONE if delimiter == "\t" and not is_quoted else DOUBLE
    # Without a backslash before a quote, both ways of quoting are the same.
    escapes = [BACKSLASH] if '\\"' in sample.text else []
    parsed = {q: sample.parse(Dialect(delimiter, q)) for q in (DOUBLE, *escapes)}
    if delimiter == "\t" and not is_quoted:
        fitting = [q for q, records in parsed.items() if _are_as_written(records)]
        if not fitting and (quoted := sample.find_quoted()):
            raise UsageError(
                got=f"{path}: its {quoted} is quoted, but its first rows are not quoted "
                f"consistently; set data.quoting to {', '.join(QUOTINGS[:-1])} or "
                f"{QUOTINGS[-1]}",
                name="E-dialect-unclear",
            )
        return fitting[0] if fitting else NONE
    for quoting, records in parsed.items():
        if records is not None and _have_equal_lengths(records):
            return quoting
    if is_quoted:
        return DOUBLE
    records = sample.parse(Dialect(delimiter, NONE))
    is_unquoted = records and _have_equal_lengths(records) and not _are_wrapped(records)
    return NONE if is_unquoted else DOUBLE


def _are_wrapped(records: list[tuple[str, list[str]]]) -> bool:
    """Returns whether quotes are around fields, and not only in their text."""
    wrapped = sum(any(map(_is_wrapped, fields)) for _, fields in records)
    return wrapped > _FEW * len(records)


def _is_wrapped(field: str) -> bool:
    return len(field) > 1 and field[0] == field[-1] == '"'


def _have_equal_lengths(records: list[tuple[str, list[str]]]) -> bool:
    return len({len(fields) for _, fields in records}) <= 1


def _are_as_written(records: list[tuple[str, list[str]]] | None) -> bool:
    """Returns whether a program that quotes would have written these lines of TSV.

    Programs quote the fields of a column that need quotes, or all of its text. Excel
    also quotes fields with commas. Any name of the header may have quotes.
    """
    if records is None:
        return False
    columns: dict[int, list[tuple[str, bool]]] = {}
    for index, (text, fields) in enumerate(records):
        quoted = _find_quotes(text, fields, "\t", _QUOTE)
        if quoted is None:
            return False
        cells = zip(fields, quoted, strict=True)
        for column, cell in enumerate(cells if index else ()):
            columns.setdefault(column, []).append(cell)
    return all(
        any(
            all(needs_quotes(field) in (is_quoted, None) for field, is_quoted in cells)
            for needs_quotes in _NEEDS_QUOTES
        )
        for cells in columns.values()
    )


# Whether a program quotes a field; None if it may or may not.
_NEEDS_QUOTES: tuple[Callable[[str], bool | None], ...] = (
    lambda field: not _SPECIAL.isdisjoint(field),
    lambda field: not _SPECIAL_IN_EXCEL.isdisjoint(field),
    lambda field: None if field in _BARE or _NUMBER.fullmatch(field) else True,
)


def _find_quotes(
    text: str, fields: list[str], delimiter: str, quote: str
) -> list[bool] | None:
    """Returns whether each field of a record is in quotes; None if one is in part."""
    quotes, position = [], 0
    text = f"{text}{delimiter}"
    for field in fields:
        quoted = quote + field.replace(quote, quote * 2) + quote
        form = quoted if text.startswith(f"{quoted}{delimiter}", position) else field
        if not text.startswith(f"{form}{delimiter}", position):
            return None
        quotes.append(form is quoted)
        position += len(form) + 1
    return quotes
