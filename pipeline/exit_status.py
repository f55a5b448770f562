"""The exit statuses of commands."""

from __future__ import annotations

import signal

from contracts import signals
from contracts.errors import UsageError

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

# The page of exit statuses has these.
DETAILS = {
    SUCCESS: "success; the last line of a run reports a missing report or card",
    FAILURE: "a failure; the run's log has the traceback. Of `forget --yes`: it names "
    "what it could not read or change",
    USAGE: "bad usage, settings or data, refused before any long work",
    REFUSED: "the Evaluator, the ServingCheck or a check refused the model; the reason "
    "is in the last line of a run",
    ALARM: "`monitor` found a difference beyond its limit, or a metric below its "
    "threshold",
    HUNG_UP: "SIGHUP: the terminal was closed; a training saves a checkpoint, and "
    "the same command resumes it",
    INTERRUPTED: "Ctrl-C; likewise",
    TERMINATED: "SIGTERM; likewise",
    CLOSED_PIPE: "nobody reads the output, as in `runs | head`; a `run` continues",
}


def of(error: BaseException) -> int:
    """Returns the exit status of a process that an error ends."""
    if isinstance(error, SystemExit) and isinstance(error.code, int):
        return error.code
    return USAGE if isinstance(error, UsageError) else FAILURE
