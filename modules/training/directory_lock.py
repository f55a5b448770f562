"""Lock of a checkpoint directory, local or remote, against a second job."""

from __future__ import annotations

import contextlib
import logging
import os
import socket
import threading
import time
import uuid
from collections.abc import Callable, Iterator
from typing import Any

import tensorflow as tf

from contracts.storage import file_lock, files, uris
from contracts.storage.file_lock import Heartbeat

logger = logging.getLogger(__name__)

BEAT_SECONDS = 15.0
STALE_SECONDS = 90.0  # several beats: a bucket may be unavailable for a while
_POLL_SECONDS = 1.0
_SETTLE_SECONDS = 2.0  # longer than a write takes


class DirectoryInUseError(Exception):
    """Another job trains in the same directory."""


@contextlib.contextmanager
def hold(directory: str) -> Iterator[Callable[[], None]]:
    """Holds the lock of a directory as long as the context is open.

    On a file system the kernel frees it when the process ends, even by SIGKILL. An
    object store has no locks: there the lock is a file that its owner rewrites every
    `BEAT_SECONDS`. A new job watches that file. It fails as soon as the file changes,
    and takes over if it does not change for `STALE_SECONDS`.

    Args:
      directory: Local or remote; created if it does not exist.

    Yields:
      A function to call before each write. It raises DirectoryInUseError if this job
      could not write for `STALE_SECONDS` and another job took the lock over. It raises
      tf.errors.OpError if the lock still cannot be read after that time.

    Raises:
      DirectoryInUseError: Another job holds the lock.
    """
    files.make_directory(directory)
    path = uris.join(directory, file_lock.DIRECTORY_LOCK)
    owner = f"process {os.getpid()} on {socket.gethostname()}"
    if not uris.is_local(directory):
        _wait_for_owner(path)
        with _RemoteLock(path, owner) as lock:
            yield lock.check
        return
    with contextlib.ExitStack() as stack:
        try:
            stack.enter_context(file_lock.hold(path, owner))
        except file_lock.LockedError as error:
            raise _in_use(path, error.owner) from error
        yield lambda: None


def _wait_for_owner(path: str) -> None:
    """Returns when the lock is free or its owner is dead; see `hold`."""
    content = files.read_record(path)
    if content is None:
        return
    logger.info("%s names %s: waiting for a heartbeat", path, content["owner"])
    deadline = time.monotonic() + STALE_SECONDS
    while time.monotonic() < deadline:
        time.sleep(_POLL_SECONDS)
        newer = files.read_record(path)
        if newer is None:
            return
        if newer != content:
            raise _in_use(path, newer["owner"])
    logger.warning("%s is stale: taken over", path)


class _RemoteLock:
    """The lock's file, which a thread rewrites."""

    def __init__(self, path: str, owner: str) -> None:
        self._path = path
        self._content: dict[str, Any] = {
            "owner": owner,
            "token": uuid.uuid4().hex,
            "beat": 0,
        }
        self._new_owner: str | None = None
        self._mutex = threading.Lock()  # between the thread and `check`
        self._renewed_at = time.monotonic()
        self._heartbeat = Heartbeat(self._renew, seconds=BEAT_SECONDS, path=path)

    def __enter__(self) -> _RemoteLock:
        self._write()
        # Of two jobs that start at once, the one that wrote last has the lock.
        time.sleep(_SETTLE_SECONDS)
        self._find_new_owner()
        self.check()
        self._heartbeat.start()
        return self

    def __exit__(self, *_: Any) -> None:
        self._heartbeat.stop()
        try:
            self._find_new_owner()
            if self._new_owner is None and tf.io.gfile.exists(self._path):
                tf.io.gfile.remove(self._path)
        except tf.errors.OpError as error:
            # The training has ended. The next job takes the stale file over.
            logger.warning("%s was not removed: %s", self._path, error)

    def check(self) -> None:
        # The thread may have been stopped with the whole process.
        if time.monotonic() - self._renewed_at > STALE_SECONDS:
            self._renew()
        if self._new_owner is not None:
            raise _in_use(self._path, self._new_owner)

    def _renew(self) -> None:
        with self._mutex:
            start = time.monotonic()
            self._find_new_owner()
            if self._new_owner is None:
                self._write()
                self._renewed_at = start

    def _find_new_owner(self) -> None:
        content = files.read_record(self._path)
        if content is not None and content["token"] != self._content["token"]:
            self._new_owner = content["owner"]

    def _write(self) -> None:
        self._content["beat"] += 1
        files.write_record(self._path, self._content)


def _in_use(path: str, owner: str) -> DirectoryInUseError:
    directory = os.path.dirname(path)
    return DirectoryInUseError(
        f"training directory {directory} is in use by {owner}; wait until that job "
        "ends or stop it, then start this one again: it resumes from the same "
        "checkpoints"
    )
