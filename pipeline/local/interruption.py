"""Ends a run within seconds on Ctrl-C, SIGTERM or SIGHUP, with all its processes."""

from __future__ import annotations

import contextlib
import os
import signal
import threading
import time
from collections.abc import Callable, Iterator
from types import FrameType
from typing import NoReturn

import psutil

from contracts import signals

# To stop Beam and to delete temporary files.
_UNWIND_SECONDS = 5.0
_END_SECONDS = 2.0  # of child processes


def end_process(status: int) -> NoReturn:
    """Ends this process and its child processes at once.

    A normal exit would wait for Beam's threads, and leave its workers running.
    """
    children = psutil.Process().children(recursive=True)
    for child in children:
        with contextlib.suppress(psutil.NoSuchProcess):
            child.terminate()
    deadline = time.monotonic() + _END_SECONDS
    while any(map(is_alive, children)) and time.monotonic() < deadline:
        time.sleep(0.01)
    for child in children:
        with contextlib.suppress(psutil.NoSuchProcess):
            child.kill()
    os._exit(status)


def is_alive(process: psutil.Process) -> bool:
    """Returns whether a process has not ended.

    One that has ended exists until its parent, or the first process of a container,
    has read its status, which may take seconds.
    """
    try:
        return process.status() != psutil.STATUS_ZOMBIE
    except psutil.NoSuchProcess:
        return False


@contextlib.contextmanager
def stopping(
    report: Callable[[str], None],
    explain: Callable[[str], None],
    stopper: signals.Stopper,
) -> Iterator[None]:
    """Raises an exception in the block on Ctrl-C, SIGTERM or SIGHUP.

    A training handles the signals itself, to save a checkpoint. A second Ctrl-C or
    SIGTERM ends the process at once. SIGHUP does not count: the shell and the kernel
    both send it when a terminal is closed, and systemd sends it with SIGTERM. The
    process also ends if the block does not end within seconds, because it waits for
    other threads or for C++. A signal that is ignored stays ignored, such as SIGHUP
    under `nohup`.

    Args:
      report: Called with a line when a signal arrives.
      explain: Called with the signal's name at the end.
      stopper: Raises the exception in the block.

    Raises:
      KeyboardInterrupt: SIGINT arrived.
      SystemExit: SIGTERM or SIGHUP arrived.
    """
    watcher = _Watcher(report, explain, stopper)
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    previous = {
        number: signal.signal(number, watcher.stop)
        for number in signals.not_ignored(signals.STOPPING)
    }
    try:
        with signals.watch(watcher.receive), stopper.restored():
            yield
    except (KeyboardInterrupt, SystemExit):
        watcher.explain()
        raise
    finally:
        watcher.is_ended.set()
        for number, handler in previous.items():
            # The caller still has to write the record of a run that was stopped.
            is_over = number == signal.SIGHUP and watcher.is_stopped
            signal.signal(number, signal.SIG_IGN if is_over else handler)


class _Watcher:
    """Receives signals in a thread; see `stopping`."""

    def __init__(
        self,
        report: Callable[[str], None],
        explain: Callable[[str], None],
        stopper: signals.Stopper,
    ) -> None:
        self._report = report
        self._explain = explain
        self._number: signal.Signals | None = None
        self._is_requested = False
        self._is_unwinding = False
        self._stopper = stopper
        self.is_ended = threading.Event()

    @property
    def is_stopped(self) -> bool:
        """Whether a signal arrived."""
        return self._number is not None

    def stop(self, number: int, frame: FrameType | None) -> None:
        """Handles a signal in the main thread; `receive` handles a second one."""
        if not self._is_unwinding:
            self._is_unwinding = True
            self._stopper.stop(number)

    def receive(self, number: int) -> None:
        """Handles a signal in another thread, while the main thread may be in C++."""
        if number not in signals.STOPPING:
            return
        if number != signal.SIGHUP:
            if self._is_requested:
                self._end()
            self._is_requested = True
        if self._number is not None:
            return
        self._number = signal.Signals(number)
        self._report(
            f"{signals.STOPPING[self._number]}: stopping; a second Ctrl-C or SIGTERM "
            "stops at once, without saving anything"
        )
        threading.Thread(target=self._end_if_late, daemon=True).start()

    def explain(self) -> None:
        """Explains what a stopped run has kept."""
        if self._number is not None:
            self._explain(signals.STOPPING[self._number])

    def _end_if_late(self) -> None:
        assert self._number is not None
        while not self.is_ended.wait(_UNWIND_SECONDS):
            # Else the handler belongs to a training, which is saving a checkpoint.
            if signal.getsignal(self._number) == self.stop:
                self._end()

    def _end(self) -> NoReturn:
        assert self._number is not None
        try:
            self.explain()
        finally:
            end_process(signals.exit_status(self._number))
