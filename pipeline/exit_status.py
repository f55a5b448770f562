"""The exit statuses of commands."""

from __future__ import annotations

import signal

SUCCESS = 0
FAILURE = 1
USAGE = 2
REFUSED = 3


def of_signal(number: int) -> int:
    """Returns the status of a process that a signal ended, as shells report it."""
    return 128 + number


INTERRUPTED = of_signal(signal.SIGINT)
TERMINATED = of_signal(signal.SIGTERM)

MEANINGS = {
    SUCCESS: "success",
    FAILURE: "failure",
    USAGE: "bad usage, settings or data",
    REFUSED: "the model was refused",
    INTERRUPTED: "Ctrl-C",
    TERMINATED: "SIGTERM",
}
