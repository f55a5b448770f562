"""A lock of this machine, which the kernel frees when its process ends."""

from __future__ import annotations

import contextlib
import fcntl
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import IO


class LockedError(Exception):
    """Another process holds a lock.

    Attributes:
      owner: The text that it wrote into the file.
    """

    def __init__(self, owner: str) -> None:
        super().__init__(f"locked by {owner}")
        self.owner = owner


@contextlib.contextmanager
def hold(
    path: str | Path, owner: str, *, wait: Callable[[str], None] | None = None
) -> Iterator[IO[str]]:
    """Holds a lock for as long as the context is open, or the process lives.

    Args:
      path: The lock's file, which stays.
      owner: Text for the processes that find it locked.
      wait: Waits for another process that holds it, after a call of this function with
        that process's text. None refuses to wait.

    Yields:
      The open file.

    Raises:
      LockedError: Another process holds it, and `wait` is None.
    """
    with open(path, "a+", encoding="utf-8") as file:
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError as error:
            file.seek(0)
            other = file.read().strip() or "another process"
            if wait is None:
                raise LockedError(other) from error
            wait(other)
            fcntl.flock(file, fcntl.LOCK_EX)
        file.truncate(0)
        file.write(owner)
        file.flush()
        yield file
