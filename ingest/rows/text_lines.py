"""Decodes the lines of a text file, and reports where a byte does not decode."""

from __future__ import annotations

import codecs
import io
import re
from collections.abc import Iterable
from typing import Any

from ingest.rows.row_errors import EncodingError, RowError

_UTF_16_MARKS = (codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE)
_MARK_BYTES = 2
# `surrogateescape` turns bytes that do not decode into these.
_BAD = re.compile("[\udc80-\udcff]")
_BAD_OFFSET = 0xDC00


def decode(file: Any, encoding: str, newline: str = "\n") -> io.TextIOWrapper:
    """Returns the lines of a file, with their ends.

    Args:
      file: A buffered binary file. A byte order mark at its start is skipped.
      encoding: Its encoding. A byte that does not decode becomes a surrogate, which
        `check` finds.
      newline: The end of a line.

    Raises:
      RowError: The file is UTF-16, but `encoding` is not.
    """
    refuse_utf_16(file.peek(_MARK_BYTES), encoding)
    if encoding == "utf-8":
        encoding = "utf-8-sig"
    return io.TextIOWrapper(file, encoding, errors="surrogateescape", newline=newline)


def are_decoded(lines: Iterable[str]) -> bool:
    """Returns whether `check` accepts all of the lines."""
    text = "".join(lines)
    return text.isascii() or not _BAD.search(text)


def check(line: str, encoding: str, place: str = "") -> None:
    """Refuses a line with bytes that do not decode.

    Args:
      line: A line of `decode`.
      encoding: The encoding that it was decoded with.
      place: Text before the column in the message.

    Raises:
      EncodingError: Names the first such byte and the setting that reads it.
    """
    if line.isascii():
        return
    bad = _BAD.search(line)
    if bad:
        byte = ord(bad.group()) - _BAD_OFFSET
        raise EncodingError(
            f"{place}column {bad.start() + 1}: the byte 0x{byte:02x} is not "
            f"{encoding}. Set the encoding of the file with data.encoding, for example "
            "--set data.encoding=cp1252 for Windows in Western Europe"
        )


def refuse_utf_16(start: bytes, encoding: str) -> None:
    """Refuses a file that starts with the byte order mark of UTF-16.

    Raises:
      RowError: It does, but `encoding` is not UTF-16.
    """
    if start.startswith(_UTF_16_MARKS) and not encoding.startswith("utf-16"):
        raise RowError(
            f"the file starts with the byte order mark of UTF-16, but data.encoding is "
            f"{encoding}; read it with --set data.encoding=utf-16"
        )
