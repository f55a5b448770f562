"""A thread that renews a file regularly, for stores without locks."""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable

logger = logging.getLogger(__name__)


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
