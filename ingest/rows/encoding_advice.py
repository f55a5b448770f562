"""Finds out what to do about bytes of a text file that are not of its encoding."""

from __future__ import annotations

import codecs
import contextlib
import functools
import re
from typing import IO

from ingest.config import ENCODINGS
from ingest.rows.row_errors import DAMAGE

_CHUNK_BYTES = 1 << 20
# `surrogateescape` turns bytes that do not decode into these.
_ESCAPED = re.compile("[\udc80-\udcff]")
# A character of UTF-8 without its end, as programs write that cut texts by bytes. The
# letters of other encodings rarely look like it.
_CUT = re.compile("[\udcc2-\udcf4][\udc80-\udcbf]+")
_FEW = 0.01  # of the characters that are not ASCII
_SKIP = "Correct them; in training, --set data.on_bad_rows=skip leaves their rows out"


def advise(file: IO[bytes], encoding: str) -> str:
    """Returns what to do, from all bytes of a file.

    Args:
      file: The file, which is read from its start.
      encoding: Its encoding by the settings, which is not that of all bytes.
    """
    trials = {name: _Trial(name) for name in ("utf-8", encoding, *ENCODINGS)}
    with contextlib.suppress(*DAMAGE):
        for chunk in iter(functools.partial(file.read, _CHUNK_BYTES), b""):
            for trial in trials.values():
                trial.add(chunk)
    for trial in trials.values():
        trial.add(b"", is_last=True)
    utf_8, own = trials["utf-8"], trials[encoding]
    if utf_8.good + utf_8.cut > utf_8.bad:
        damaged = _count(utf_8.cut + utf_8.bad, "character")
        if encoding == "utf-8":
            return f"The file is UTF-8, with {damaged} cut or damaged. {_SKIP}"
        but = f", but for {damaged}" if utf_8.cut + utf_8.bad else ""
        return f"--set data.encoding=utf-8 reads the file: it is UTF-8{but}"
    if own.bad < _FEW * own.good:
        return f"The file has {_count(own.bad, 'such byte')}. {_SKIP}"
    fitting = [name for name in ENCODINGS if not trials[name].bad and name != encoding]
    if not fitting:
        return f"Set the encoding of the file with data.encoding. {_SKIP}"
    first, *others = (f"{name} ({ENCODINGS[name]})" for name in fitting)
    advice = (
        "Set the encoding of the file with data.encoding, for example --set "
        f"data.encoding={first}"
    )
    return f"{advice}; others that fit: {', '.join(others)}" if others else advice


class _Trial:
    """Decodes a file with an encoding, and counts its characters beyond ASCII.

    Attributes:
      good: Characters.
      cut: Characters of UTF-8 that lack their end.
      bad: Other places that do not decode.
    """

    def __init__(self, encoding: str) -> None:
        # A file may have U+FFFD, the mark of `replace`, if another program wrote it.
        is_utf_8 = encoding == "utf-8"
        errors = "surrogateescape" if is_utf_8 else "replace"
        self._decoder = codecs.getincrementaldecoder(encoding)(errors)
        self._bad = _ESCAPED if is_utf_8 else re.compile("\ufffd")
        self.good = self.cut = self.bad = 0

    def add(self, chunk: bytes, *, is_last: bool = False) -> None:
        text, cut = _CUT.subn("", self._decoder.decode(chunk, is_last))
        bad = len(self._bad.findall(text))
        self.cut += cut
        self.bad += bad
        self.good += len(text) - len(text.encode("ascii", "ignore")) - bad


def _count(number: int, noun: str) -> str:
    return f"{number:,} {noun}" + ("" if number == 1 else "s")
