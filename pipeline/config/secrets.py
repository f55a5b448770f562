"""Refuses secrets in settings, which are written to records, artifacts and jobs."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from typing import Any

from contracts.errors import UsageError

_IN_URL = re.compile(r"://[^/@\s]*:[^/@\s]+@")
_OPTION = re.compile(
    r"--[\w-]*(secret|passw|token(?!iz)|credential|api[_-]?key)", re.IGNORECASE
)


def refuse(settings: Any, key: str) -> None:
    """Refuses settings that contain a secret. The error does not have it.

    Args:
      settings: A value, or a mapping or list of them.
      key: The name of the settings, for the error.

    Raises:
      UsageError: A value is a URL with a password, or an option with a secret.
    """
    for name, text in find_texts(settings, key):
        if not _IN_URL.search(text) and not _OPTION.match(text):
            continue
        raise UsageError(
            got=f"{name} has a secret, which would be written to the run's record, its "
            "artifacts and jobs; set it in the environment, where the library reads "
            "it, such as AWS_SECRET_ACCESS_KEY or GOOGLE_APPLICATION_CREDENTIALS",
            name="E-secret-visible",
        )


def find_texts(settings: Any, key: str) -> Iterator[tuple[str, str]]:
    """Yields each text of settings, which may be nested, after its dotted key."""
    if isinstance(settings, str):
        yield key, settings
    elif isinstance(settings, Mapping):
        for name, value in settings.items():
            yield key, str(name)
            yield from find_texts(value, f"{key}.{name}" if key else str(name))
    elif isinstance(settings, list | tuple):
        for value in settings:
            yield from find_texts(value, key)


def refuse_password(option: str, url: str) -> None:
    """Refuses the URL of a server if it has a password: errors and logs show the URL.

    Args:
      option: The option that named it, for the error.
      url: The URL, with or without `http://`.

    Raises:
      UsageError: It has a password.
    """
    if _IN_URL.search(url if "://" in url else f"http://{url}"):
        raise UsageError(
            got=f"{option} has a password, which other users of this machine can read; "
            "give the address without it",
            name="E-secret-visible",
        )
