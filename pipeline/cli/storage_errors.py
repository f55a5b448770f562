"""Errors of storage in one line: a full disk, or a file that may not be written."""

from __future__ import annotations

import errno
import os
import re

_NUMBERS = (
    errno.EACCES,
    errno.EDQUOT,
    errno.EIO,
    errno.EMFILE,
    errno.ENOSPC,
    errno.EPERM,
    errno.EROFS,
    errno.ESTALE,
)
# In messages of TensorFlow and of ML Metadata, which has SQLite's.
_TEXTS = (
    *map(os.strerror, _NUMBERS),
    "disk I/O error",
    "database or disk is full",
    "readonly database",
    "unable to open database file",
)
# Beam raises an error of a step as RuntimeError, with the step in its message.
_OF_BEAM = re.compile(r"\[Errno ([0-9]+)\] (.*) \[while running '")
_ADVICE = "Correct the cause and run the command again"


def describe(error: Exception) -> str | None:
    """Returns a line about an error of storage; None for another error."""
    if isinstance(error, OSError):
        if error.errno not in _NUMBERS:
            return None
        path = f"{error.filename}: " if error.filename else ""
        return f"{path}{error.strerror}. {_ADVICE}"
    library, _, _ = type(error).__module__.partition(".")
    (message, *_) = str(error).splitlines() or [""]
    if (match := _OF_BEAM.search(message)) and int(match[1]) in _NUMBERS:
        return f"{match[2]}. {_ADVICE}"
    if library in ("tensorflow", "ml_metadata"):
        for text in _TEXTS:
            if text in message:
                start, _, _ = message.partition(text)
                return f"{start}{text}. {_ADVICE}"
    return None
