"""Finds files, and reads the rows of an open one, in order and in bounded memory."""

from __future__ import annotations

import glob
import itertools
import json
import os
import re
from collections import Counter
from collections.abc import Iterable, Iterator
from typing import IO, Any

from contracts.errors import UsageError
from contracts.row_values import find_surrogate
from contracts.settings.data import DataConfig, FileFormat
from contracts.storage import uris
from ingest.rows import json_conversion, remote_rows, text_lines
from ingest.rows.formats import FORMATS, format_of
from ingest.rows.row_errors import FileError, Row, RowError

DEFAULTS = DataConfig()
_SURROGATE = re.compile(r"\\u[dD][89a-fA-F]")
_ARRAY = re.compile(r"\[\s*\{")  # of objects


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
    return remote_rows.match(source)


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
