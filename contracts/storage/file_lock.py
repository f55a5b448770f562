"""Locks that are files, between processes.

On one machine, the kernel frees a lock when its owner ends. A store without locks has a
file that its owner renews.
"""

from __future__ import annotations

import contextlib
import errno
import fcntl
import functools
import hashlib
import logging
import os
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import IO

logger = logging.getLogger(__name__)

DIRECTORY_LOCK = "lock"  # name of the file that locks a directory of checkpoints
_SUBSTITUTES = "/tmp"  # not TMPDIR, which another process may have set differently
# Of `flock`, such as on Lustre without `-o flock` or on NFS without a lock daemon.
_NO_LOCKS = (errno.ENOLCK, errno.ENOSYS, errno.EOPNOTSUPP)


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
    with contextlib.ExitStack() as stack:
        file = stack.enter_context(
            open(path, "a+", encoding="utf-8", errors="backslashreplace")
        )
        if not _try(file, stack):
            file.seek(0)
            other = file.read().strip() or "another process"
            if wait is None:
                raise LockedError(other)
            wait(other)
            _lock(file, fcntl.LOCK_EX, stack)
        file.truncate(0)
        file.write(owner)
        file.flush()
        yield file


def find_owner(path: str | Path) -> str | None:
    """Returns what the owner of a lock wrote into its file; None if it is free."""
    with contextlib.ExitStack() as stack:
        try:
            file = stack.enter_context(
                open(path, encoding="utf-8", errors="backslashreplace")
            )
            _lock(file, fcntl.LOCK_SH | fcntl.LOCK_NB, stack)
        except FileNotFoundError:
            return None
        except BlockingIOError:
            return file.read().strip()
    return None


def _try(file: IO[str], stack: contextlib.ExitStack) -> bool:
    """Returns whether the lock was acquired, until the stack is closed.

    It tries again, because a process that only checks the lock holds it for some
    microseconds.
    """
    for seconds in (0.05, 0.05, 0.0):
        try:
            _lock(file, fcntl.LOCK_EX | fcntl.LOCK_NB, stack)
        except BlockingIOError:
            time.sleep(seconds)
        else:
            return True
    return False


def _lock(file: IO[str], operation: int, stack: contextlib.ExitStack) -> None:
    """Locks a file, or its substitute if the file system has no locks.

    Raises:
      BlockingIOError: Another process holds the lock.
      OSError: The file cannot be locked, or `/tmp` has no locks either.
    """
    try:
        fcntl.flock(file, operation)
    except OSError as error:
        if error.errno not in _NO_LOCKS:
            # With EAGAIN it is a BlockingIOError.
            raise OSError(error.errno, f"flock: {error.strerror}") from error
        path = _substitute(os.path.realpath(file.name))
        # Other users may write to this directory, too.
        flags = os.O_CREAT | os.O_RDWR | os.O_NOFOLLOW
        substitute = os.open(path, flags, mode=0o600)
        stack.callback(os.close, substitute)
        fcntl.flock(substitute, operation)


@functools.cache  # one warning
def _substitute(path: str) -> str:
    """Returns the path of a file that is locked instead, by the path of a lock."""
    name = hashlib.sha256(path.encode()).hexdigest()[:16]
    substitute = f"{_SUBSTITUTES}/bert-pipeline-{os.getuid()}-{name}.lock"
    logger.warning(
        "the file system of %s has no locks; %s is locked instead, which only your "
        "processes with the same %s notice",
        path,
        substitute,
        _SUBSTITUTES,
    )
    return substitute


class Heartbeat:
    """Calls a function regularly, in a thread.

    Args:
      beat: The function. Any error is logged, and the function is called again: the
        clients of object stores raise errors of many types.
      seconds: Time between two calls.
      path: The file that the function renews, for the log.
    """

    def __init__(self, beat: Callable[[], None], *, seconds: float, path: str) -> None:
        self._beat = beat
        self._seconds = seconds
        self._path = path
        self._is_stopped = threading.Event()
        self._thread = threading.Thread(target=self._run, daemon=True)

    def start(self) -> None:
        """Starts the thread. The first call is after `seconds`."""
        self._thread.start()

    def stop(self) -> None:
        """Stops the thread, and waits for a running call."""
        self._is_stopped.set()
        self._thread.join()

    def _run(self) -> None:
        while not self._is_stopped.wait(self._seconds):
            try:
                self._beat()
            except Exception:
                logger.warning(
                    "%s was not renewed; the next attempt is in %g s",
                    self._path,
                    self._seconds,
                    exc_info=True,
                )
