"""Files of the server's token, certificates and keys."""

from __future__ import annotations

import contextlib
import logging
import stat
from pathlib import Path

from contracts.errors import UsageError

logger = logging.getLogger(__name__)


def read(option: str, path: Path) -> bytes:
    """Returns the content of a file.

    Args:
      option: The command line option that names the file, for the error.
      path: The file.

    Raises:
      UsageError: It cannot be read.
    """
    try:
        return path.read_bytes()
    except OSError as error:
        raise UsageError(
            got=f"{option} {path}: {error.strerror}", name="E-storage-failed"
        ) from error


def warn_if_public(option: str, path: Path) -> None:
    """Logs a warning if every user of this machine can read a secret.

    It is no error: Kubernetes mounts a Secret with mode 0644 by default.

    Args:
      option: The command line option that names the file.
      path: The file.
    """
    with contextlib.suppress(OSError):  # reported by `read`
        if path.stat().st_mode & stat.S_IROTH:
            logger.warning(
                "%s %s: every user of this machine can read it; run: chmod o-r %s",
                option,
                path,
                path,
            )
