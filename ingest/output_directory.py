"""A directory that a command writes to: created and checked before the work."""

from __future__ import annotations

import contextlib
import os
import tempfile
from collections.abc import Iterator
from pathlib import Path

from contracts.errors import UsageError


def make(path: Path) -> None:
    """Creates a directory and its parents, and checks that files can be written to it.

    Raises:
      OSError: It cannot be created or written.
    """
    path.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryFile(dir=path):
        pass  # an existing directory may be read-only


def make_for_file(file: Path, option: str) -> None:
    """Creates the directory of a file that is written after long work.

    Args:
      file: The file, which may exist.
      option: The option that named it, and its value.

    Raises:
      UsageError: The directory cannot be written, the name is too long, or it is a
        directory.
    """
    with usage_errors(option, "name another file"):
        if file.is_dir():
            raise UsageError(
                got=f"{option} is a directory; name a file", name="E-storage-failed"
            )
        make(file.parent)
        with contextlib.suppress(FileNotFoundError):
            file.stat()


@contextlib.contextmanager
def usage_errors(
    name: object, advice: str = "name another directory"
) -> Iterator[None]:
    """Turns errors of the file system into usage errors.

    Args:
      name: What is written: a path, after the setting that names it.
      advice: What to do.

    Raises:
      UsageError: It cannot be written.
    """
    try:
        yield
    except OSError as error:
        path = error.filename  # None of `flock`
        obstacle = f" ({path})" if path and os.path.lexists(path) else ""
        reason = error.strerror
        if obstacle and not os.path.exists(path):
            reason = "a link to a missing directory"
        raise UsageError(
            got=f"{name} cannot be written: {reason}{obstacle}; {advice}",
            name="E-storage-failed",
        ) from error
