"""Decodes the lines of a text file, and reports where a byte does not decode."""

from __future__ import annotations

import codecs
import io
import re
from collections.abc import Iterable
from typing import Any

from contracts.row_values import find_surrogate
from ingest.rows.row_errors import EncodingError, RowError

# The codecs that skip them; the mark of UTF-32 starts with one of UTF-16.
_MARKS = {
    codecs.BOM_UTF32_LE: "utf-32",
    codecs.BOM_UTF32_BE: "utf-32",
    codecs.BOM_UTF16_LE: "utf-16",
    codecs.BOM_UTF16_BE: "utf-16",
    codecs.BOM_UTF8: "utf-8-sig",
}
MARK_BYTES = max(map(len, _MARKS))
# `surrogateescape` turns bytes that do not decode into the last 128 of these. Some
# encodings, such as UTF-7, can also have them.
_BAD = re.compile("[\ud800-\udfff]")
_BAD_OFFSET = 0xDC00


def decode(file: Any, encoding: str, newline: str = "\n") -> io.TextIOWrapper:
    """Returns the lines of a file, with their ends.

    Args:
      file: A buffered binary file. A byte order mark at its start is skipped.
      encoding: Its encoding. A byte that does not decode becomes a surrogate, which
        `check` finds.
      newline: The end of a line.

    Raises:
      RowError: The mark is of another encoding.
    """
    codec = find_codec(file.peek(MARK_BYTES), encoding)
    return io.TextIOWrapper(file, codec, errors="surrogateescape", newline=newline)


def find_codec(start: bytes, encoding: str) -> str:
    """Returns the codec of a file: one that skips a byte order mark, if there is one.

    Args:
      start: The first bytes of the file.
      encoding: Its encoding, or that of the mark without the byte order. The mark of
        UTF-16 or UTF-32, which is not UTF-8, overrides `utf-8`, the default.

    Raises:
      RowError: The mark is of another encoding.
    """
    codec = next((c for mark, c in _MARKS.items() if start.startswith(mark)), None)
    if codec is None:
        return encoding
    marked = codec.removesuffix("-sig")
    if encoding != "utf-8" and not encoding.startswith(marked):
        raise RowError(
            f"the file starts with the byte order mark of {marked.upper()}, but "
            f"data.encoding is {encoding}; use `data.encoding={marked}`"
        )
    return codec


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
      EncodingError: Names the first such byte.
      RowError: The line has half of a character.
    """
    if line.isascii():
        return
    bad = _BAD.search(line)
    if bad:
        byte = ord(bad.group()) - _BAD_OFFSET
        if not 0x80 <= byte <= 0xFF:
            problem = find_surrogate(line)
            raise RowError(f"{place}the line {problem}")
        raise EncodingError(
            f"{place}column {bad.start() + 1}: the byte 0x{byte:02x} is not {encoding}"
        )
