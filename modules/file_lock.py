"""A lock between processes of one machine, which the kernel frees when one ends."""

from __future__ import annotations

import contextlib
import fcntl
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import IO


class LockedError(Exception):
    """Another process holds the lock.

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
    """Holds the lock as long as the context is open.

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
