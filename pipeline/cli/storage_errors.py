"""Errors of storage in one line: a full disk, or an object store that fails."""

from __future__ import annotations

import errno
import os

from contracts.errors import UsageError
from modules import remote_files

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
    "Concurrent writes aborted",  # another program locks the database
    "disk I/O error",
    "database disk image is malformed",
    "database is locked",
    "database or disk is full",
    "readonly database",
    "unable to open database file",
)
# Modules of Beam's errors of files, and of those of Google's library, which Beam uses.
_REMOTE_MODULES = (
    "apache_beam.io.filesystem",
    "google.api_core",
    "google.cloud.storage",
    "google.resumable_media",
)
# Beam raises errors of a step, or a list of them, as one of its own with the step.
_BEAM_STEP = " [while running '"
# ML Metadata has all that it wrote before it, and the query after SQLite's reason. The
# constructor of its store raises a RuntimeError.
_QUERY = "Error when executing query: "


def find(error: Exception) -> UsageError | None:
    """Returns an error of storage with what to do; None for another error."""
    path = None
    if isinstance(error, OSError) and error.errno in _NUMBERS:
        path, reason = error.filename, error.strerror
    else:
        reason = _find_reason(error)
    if reason is None:
        return None
    return UsageError(
        path,
        reason,
        advice="correct the cause and run the command again",
        name="E-storage-failed",
    )


def _find_reason(error: Exception) -> str | None:
    message, is_of_beam, _ = str(error).partition(_BEAM_STEP)
    module = type(error).__module__
    if module.startswith(_REMOTE_MODULES):
        return f"{type(error).__name__}: {' '.join(message.split())}"
    if isinstance(error, OSError) and error.errno is not None:
        return None
    _, is_of_query, reason = message.rpartition(_QUERY)
    first, *_ = message.splitlines() or [""]
    library, _, _ = module.partition(".")
    if library == "tensorflow" and remote_files.is_outage(message):
        return " ".join(message.split())
    if is_of_query:
        message = f"ML Metadata: {reason}"
    elif is_of_beam:
        message = " ".join(message.split())
    elif library == "ml_metadata":
        message = f"ML Metadata: {first}"
    # An OSError without a number is of a checkpoint, with TensorFlow's reason.
    elif library == "tensorflow" or isinstance(error, OSError):
        message = first
    else:
        return None
    for text in _TEXTS:
        if text in message:
            start, _, end = message.partition(text)
            # After SQLite's reason, ML Metadata has the query.
            return f"{start}{text}{end if is_of_beam else ''}"
    return None
