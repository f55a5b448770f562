"""The errors that a user can fix.

An edit here reruns the Trainer, so errors of a single package are defined there.
"""


def named(message: str, name: str) -> str:
    """Returns a message with its stable name, which docs/troubleshooting/ explains.

    Args:
      message: A message of any number of lines.
      name: `E-` and words of lower-case letters and digits, such as `E-output-in-use`.
    """
    return f"{message} [{name}]"


class UsageError(Exception):
    """Bad usage, settings or data; the message says what to do next.

    The command line prints only the text and exits with `exit_status.USAGE`. Other
    exceptions are failures.

    Args:
      message: What is wrong, and what to do next.
      name: The stable name, as in `named`, with which the text ends.

    Attributes:
      message: The message without the name.
      name: The stable name.
    """

    def __init__(self, message: str, name: str) -> None:
        super().__init__(message, name)  # pickle passes these
        self.message = message
        self.name = name

    def __str__(self) -> str:
        return named(self.message, self.name)


class DataRefusedError(UsageError):
    """The rows were refused; the message names some of them."""
