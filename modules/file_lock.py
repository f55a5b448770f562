"""A lock between processes of one machine; the kernel frees it when its owner ends."""

from __future__ import annotations

import contextlib
import fcntl
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import IO

DIRECTORY_LOCK = "lock"  # name of the file that locks a directory of checkpoints


class LockedError(Exception):
    """Another process holds the lock.

    Attributes:
      owner: The text that the other process wrote into the file.
    """

    def __init__(self, owner: str) -> None:
        super().__init__(f"locked by {owner}")
        self.owner = owner


@contextlib.contextmanager
def hold(
    path: str | Path, owner: str, *, wait: Callable[[str], None] | None = None
) -> Iterator[IO[str]]:
    """Holds the lock while the context is open.

    Args:
      path: The lock file; it is not deleted.
      owner: Describes this process to others that request the lock.
      wait: Called with the owner's text before waiting for another process. None
        raises LockedError instead.

    Yields:
      The open file.

    Raises:
      LockedError: Another process holds the lock, and `wait` is None.
    """
    with open(path, "a+", encoding="utf-8", errors="backslashreplace") as file:
        if not _try(file):
            file.seek(0)
            other = file.read().strip() or "another process"
            if wait is None:
                raise LockedError(other)
            wait(other)
            fcntl.flock(file, fcntl.LOCK_EX)
        file.truncate(0)
        file.write(owner)
        file.flush()
        yield file


def _try(file: IO[str]) -> bool:
    """Returns whether the lock was acquired.

    It tries again, because a process that only checks the lock holds it for some
    microseconds.
    """
    for seconds in (0.05, 0.05, 0.0):
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            time.sleep(seconds)
        else:
            return True
    return False
