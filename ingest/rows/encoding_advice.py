"""Finds out what to do about bytes of a text file that are not of its encoding."""

from __future__ import annotations

import codecs
import contextlib
import functools
import re
from typing import IO

from contracts.settings.data import ENCODINGS
from ingest.rows import text_lines
from ingest.rows.row_errors import DAMAGE

_CHUNK_BYTES = 1 << 20
# `surrogateescape` turns bytes that do not decode into these. No text has NUL, but
# UTF-16 that is read as another encoding does.
_ESCAPED = re.compile("[\udc80-\udcff\0]")
_REPLACED = re.compile("[\ufffd\0]")
# A character of UTF-8 without its end, as programs write that cut texts by bytes. The
# letters of other encodings rarely look like it.
_CUT = re.compile("[\udcc2-\udcf4][\udc80-\udcbf]+")
_RUN = re.compile(r"[^\x00-\x7f]+")
_FEW = 0.01  # of the characters beyond ASCII, or of the lines
_WIDE = ("utf-16", "utf-32")
_WESTERN = "cp1252"
_ANY_WESTERN = "latin-1"  # of older text, which may have bytes that cp1252 lacks
# Python's `utf-16` reads only files with a byte order mark.
_UNMARKED = "UTF-16 without a byte order mark"
_CANDIDATES = {"utf-16-le": _UNMARKED, "utf-16-be": _UNMARKED, **ENCODINGS}
_USES = {**_CANDIDATES, _ANY_WESTERN: "Western, any bytes"}


def advise(file: IO[bytes], encoding: str, *, can_skip: bool = True) -> str:
    """Returns what to do, from all bytes of a file.

    Args:
      file: A buffered file, which is read from its start.
      encoding: Its encoding by the settings, which is not that of all bytes.
      can_skip: Whether the rows with such bytes can be left out.
    """
    start = file.peek(text_lines.MARK_BYTES)  # type: ignore[attr-defined]
    encoding = text_lines.find_codec(start, encoding).removesuffix("-sig")
    trials = {name: _Trial(name) for name in ("utf-8", encoding, *_USES)}
    with contextlib.suppress(*DAMAGE):
        for chunk in iter(functools.partial(file.read, _CHUNK_BYTES), b""):
            for trial in trials.values():
                trial.add(chunk)
    for trial in trials.values():
        trial.add(b"", is_last=True)
    correct = "correct them"
    if can_skip:
        correct += "; in training, `data.on_bad_rows=skip` leaves their rows out"
    utf_8, own = trials["utf-8"], trials[encoding]
    damaged = utf_8.cut + utf_8.bad
    if not damaged or utf_8.good + utf_8.cut > utf_8.bad:
        if encoding == "utf-8":
            characters = _count(damaged, "character")
            return f"the file is UTF-8, with {characters} cut or damaged; {correct}"
        but = f", but for {_count(damaged, 'character')}" if damaged else ""
        return f"use `data.encoding=utf-8`: the file is UTF-8{but}"
    places = _count(own.cut + own.bad, "damaged place")
    if own.lines and own.bad < _FEW * own.good:
        return f"the file has {places}; {correct}"
    fitting = [n for n in _CANDIDATES if n != encoding and trials[n].fits]
    western = trials[_ANY_WESTERN]
    if _WESTERN not in fitting and western.fits and not western.is_in_runs:
        fitting.append(_ANY_WESTERN)
    if not fitting:
        return f"set the encoding of the file, `data.encoding`, or {correct}"
    first, *others = sorted(fitting, key=lambda name: trials[name].rank)
    advice = (
        "set the encoding of the file, for example "
        f"`data.encoding={first}` ({_USES[first]})"
    )
    if others:
        uses = ", ".join(f"{name} ({_USES[name]})" for name in others)
        advice += f"; others that fit: {uses}"
    if own.cut + own.bad < _FEW * own.lines:
        advice += f"; or the file is {encoding}, with {places}; {correct}"
    return advice


class _Trial:
    """Decodes a file with an encoding, and counts its characters.

    Attributes:
      good: Those beyond ASCII. In UTF-16 and UTF-32, ASCII counts, too: other encodings
        do not look like it.
      cut: Characters of UTF-8 that lack their end.
      bad: Other places that do not decode.
      lines: Ends of lines.
    """

    def __init__(self, encoding: str) -> None:
        self._encoding = encoding
        self._is_wide = encoding.startswith(_WIDE)
        # A file may have U+FFFD, the mark of `replace`, if another program wrote it.
        is_utf_8 = encoding == "utf-8"
        errors = "surrogateescape" if is_utf_8 else "replace"
        self._decoder = codecs.getincrementaldecoder(encoding)(errors)
        self._bad = _ESCAPED if is_utf_8 else _REPLACED
        self.good = self.cut = self.bad = self.lines = 0
        self._runs = self._bytes = 0  # beyond ASCII

    def add(self, chunk: bytes, *, is_last: bool = False) -> None:
        try:
            text = self._decoder.decode(chunk, is_last)
        except UnicodeError:  # UTF-16 and UTF-32 without a byte order mark
            self.bad += 1
            return
        text, cut = _CUT.subn("", text)
        text, bad = self._bad.subn("", text)
        ascii_text, runs = _RUN.subn("", text)
        self.cut += cut
        self.bad += bad
        self._runs += runs
        self._bytes += len(chunk) - len(ascii_text)
        self.good += len(text) - (0 if self._is_wide else len(ascii_text))
        self.lines += max(map(ascii_text.count, "\r\n"))

    @property
    def fits(self) -> bool:
        """Whether the encoding reads the file.

        Almost any bytes decode as UTF-16, but to a text without lines.
        """
        return not self.bad and (self.lines > 0 or not self._is_wide)

    @property
    def is_in_runs(self) -> bool:
        """Whether the characters beyond ASCII are next to each other."""
        return self.good > 2 * self._runs

    @property
    def rank(self) -> tuple[bool, int]:
        """The smaller, the likelier is the encoding among those that read the file.

        Nearly all encodings decode a single byte beyond ASCII. In Western text, such
        bytes are between letters of ASCII; texts of other scripts have runs of them.
        Encodings of two bytes a character rarely decode other texts.
        """
        length = round(self._bytes / max(1, self.good))
        is_western = self._encoding in (_WESTERN, _ANY_WESTERN)
        return self.is_in_runs == is_western, -length


def _count(number: int, noun: str) -> str:
    return f"{number:,} {noun}" + ("" if number == 1 else "s")
