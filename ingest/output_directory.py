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


def make_for_file(file: Path, argument: str) -> None:
    """Creates the directory of a file that is written after long work.

    Args:
      file: The file, which may exist.
      argument: The name of the argument that has the file.

    Raises:
      UsageError: The directory cannot be written, the name is too long, or it is a
        directory.
    """
    with usage_errors(argument, "name another file", start=f"{file} "):
        if file.is_dir():
            raise UsageError(
                argument,
                f"{file} is a directory",
                advice="name a file",
                name="E-storage-failed",
            )
        make(file.parent)
        with contextlib.suppress(FileNotFoundError):
            file.stat()


@contextlib.contextmanager
def usage_errors(
    setting: object, advice: str = "name another directory", *, start: str = ""
) -> Iterator[None]:
    """Turns errors of the file system into usage errors.

    Args:
      setting: The path that is written, or the argument that names it.
      advice: What to do.
      start: Text before what is wrong.

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
            str(setting),
            f"{start}cannot be written: {reason}{obstacle}",
            advice=advice,
            name="E-storage-failed",
        ) from error
