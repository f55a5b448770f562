"""The exit statuses of commands."""

from __future__ import annotations

import signal

from modules import signals

SUCCESS = 0
FAILURE = 1
USAGE = 2
REFUSED = 3
INTERRUPTED = signals.exit_status(signal.SIGINT)
TERMINATED = signals.exit_status(signal.SIGTERM)

MEANINGS = {
    SUCCESS: "success",
    FAILURE: "failure",
    USAGE: "bad usage, settings or data",
    REFUSED: "the model was refused",
    INTERRUPTED: "Ctrl-C",
    TERMINATED: "SIGTERM",
}
