"""Signals that arrive while the main thread runs C++."""

from __future__ import annotations

import contextlib
import os
import signal
import threading
from collections.abc import Callable, Iterable, Iterator

# The signals that stop a run, and their names.
STOPPING = {
    signal.SIGINT: "Ctrl-C",
    signal.SIGTERM: "SIGTERM",
    signal.SIGHUP: "SIGHUP (closed terminal)",
}


@contextlib.contextmanager
def watch(callback: Callable[[int], None]) -> Iterator[None]:
    """Calls a function in a thread for each signal, while the context is open.

    Python calls a signal's handler in the main thread, and only when C++ returns; a
    loop of training steps takes minutes. Contexts can be nested, and all are called.
    Outside the main thread nothing is watched, because Python handles no signals there.

    Args:
      callback: Called with the number of a signal that has a handler in Python.
    """
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    reader, writer = os.pipe()
    os.set_blocking(writer, False)
    previous = signal.set_wakeup_fd(writer)

    def forward() -> None:
        while number := os.read(reader, 1):
            if previous != -1:
                os.write(previous, number)
            callback(number[0])

    thread = threading.Thread(target=forward, daemon=True)
    thread.start()
    try:
        yield
    finally:
        signal.set_wakeup_fd(previous)
        os.close(writer)  # ends the thread
        thread.join()
        os.close(reader)


def not_ignored(numbers: Iterable[signal.Signals]) -> list[signal.Signals]:
    """Returns the signals that this process does not ignore; handle no others.

    A process starts with ignored signals: a shell has a job in the background ignore
    the Ctrl-C for the job in the foreground, and `nohup` has it ignore SIGHUP.
    """
    return [n for n in numbers if signal.getsignal(n) != signal.SIG_IGN]


def exit_status(number: int) -> int:
    """Returns the exit status that a shell reports for a process killed by a signal."""
    return 128 + number


class Stopper:
    """Stops a block with the exception of a signal."""

    def __init__(self) -> None:
        self._raised: KeyboardInterrupt | SystemExit | None = None

    def stop(self, number: int) -> None:
        """Raises the exception; call it in a signal's handler.

        A SIGHUP after another signal is ignored: the shell and the kernel both send it
        when a terminal is closed, and the block is unwinding already.

        Raises:
          KeyboardInterrupt: The signal is SIGINT.
          SystemExit: Any other signal, with its `exit_status`.
        """
        if number == signal.SIGHUP and self._raised is not None:
            return
        if number == signal.SIGINT:
            self._raised = KeyboardInterrupt()
        else:
            self._raised = SystemExit(exit_status(number))
        raise self._raised

    @contextlib.contextmanager
    def restored(self) -> Iterator[None]:
        """Raises the signal's exception again if another exception replaced it.

        A handler can run in a C++ function that calls Python, and some of these replace
        its exception by an error: `tf.nest.flatten` raises a `TypeError`.
        """
        try:
            yield
        except Exception as error:
            if self._raised is None:
                raise
            raise self._raised from error
