"""One run at a time in an output directory."""

from __future__ import annotations

import contextlib
import fcntl
import os
from collections.abc import Iterator
from pathlib import Path

from pipeline.errors import UsageError


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
    with open(path, "a+", encoding="utf-8") as file:
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError as error:
            file.seek(0)
            raise UsageError(
                f"output {path.parent} is in use by {file.read().strip()}; wait for "
                "its end, or name another directory with --output DIR"
            ) from error
        file.truncate(0)
        file.write(f"process {os.getpid()}, {run}\n")
        file.flush()
        yield
