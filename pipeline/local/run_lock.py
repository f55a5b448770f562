"""One run at a time in an output directory."""

from __future__ import annotations

import contextlib
import os
from collections.abc import Iterator
from pathlib import Path

from modules import file_lock
from pipeline.config.errors import UsageError


@contextlib.contextmanager
def hold(path: Path, run: str) -> Iterator[None]:
    """Holds a lock for as long as the context is open.

    The kernel frees it where this process dies, however it does.

    Args:
      path: The lock's file, which stays.
      run: What another process is told that wants the lock.

    Raises:
      UsageError: Another process holds it.
    """
    path.parent.mkdir(parents=True, exist_ok=True)
    try:
        with file_lock.hold(path, f"process {os.getpid()}, {run}\n"):
            yield
    except file_lock.LockedError as error:
        raise UsageError(
            f"output {path.parent} is in use by {error.owner}; wait for its end, or "
            "name another directory with --output DIR"
        ) from error
