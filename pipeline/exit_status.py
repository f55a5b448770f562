"""The exit statuses of commands."""

from __future__ import annotations

import signal

from modules import signals

SUCCESS = 0
FAILURE = 1
USAGE = 2
REFUSED = 3
ALARM = 4
INTERRUPTED = signals.exit_status(signal.SIGINT)
TERMINATED = signals.exit_status(signal.SIGTERM)
HUNG_UP = signals.exit_status(signal.SIGHUP)
CLOSED_PIPE = signals.exit_status(signal.SIGPIPE)

MEANINGS = {
    SUCCESS: "success",
    FAILURE: "failure",
    USAGE: "bad usage, settings or data",
    REFUSED: "the model was refused",
    ALARM: "an alarm of `monitor`",
    HUNG_UP: "SIGHUP",
    INTERRUPTED: "Ctrl-C",
    TERMINATED: "SIGTERM",
    CLOSED_PIPE: "closed pipe",
}
