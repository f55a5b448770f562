"""Refuses secrets in settings, which are written to records, artifacts and jobs."""

from __future__ import annotations

import re

from contracts.errors import UsageError

_IN_URL = re.compile(r"://[^/@\s]*:[^/@\s]+@")
_OPTION = re.compile(
    r"--[\w-]*(secret|passw|token(?!iz)|credential|api[_-]?key)", re.IGNORECASE
)


def refuse(key: str, text: str) -> None:
    """Refuses a setting that contains a secret. The error does not have it.

    Raises:
      UsageError: It is a URL with a password, or an option with a secret.
    """
    if _IN_URL.search(text) or _OPTION.match(text):
        raise UsageError(
            key,
            "a secret, which would be written to the run's record, its artifacts and "
            "jobs",
            advice="set it in the environment, where the library reads it, such as "
            "AWS_SECRET_ACCESS_KEY or GOOGLE_APPLICATION_CREDENTIALS",
            name="E-secret-visible",
        )


def refuse_password(argument: str, url: str) -> None:
    """Refuses the URL of a server if it has a password: errors and logs show the URL.

    Args:
      argument: The argument that names it, for the error.
      url: The URL, with or without `http://`.

    Raises:
      UsageError: It has a password.
    """
    if _IN_URL.search(url if "://" in url else f"http://{url}"):
        raise UsageError(
            argument,
            "a password, which other users of this machine can read",
            advice="give the address without it",
            name="E-secret-visible",
        )
