"""The errors that a user can fix.

An edit here reruns the Trainer, so errors of a single package are defined there.
"""


class UsageError(Exception):
    """Bad usage, settings or data; the message says what to do next.

    The command line prints only the message and exits with `exit_status.USAGE`. Other
    exceptions are failures.
    """


class DataRefusedError(UsageError):
    """The rows were refused; the message names some of them."""
