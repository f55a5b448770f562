"""Files of the server's token, certificates and keys."""

from __future__ import annotations

import contextlib
import logging
import stat
from pathlib import Path

from contracts.errors import UsageError

logger = logging.getLogger(__name__)


def read(setting: str, path: Path) -> bytes:
    """Returns the content of the file that a setting names.

    Raises:
      UsageError: It cannot be read.
    """
    try:
        return path.read_bytes()
    except OSError as error:
        raise UsageError(
            setting,
            f"{path}: {error.strerror}",
            advice="correct the path, or let the user of the server read the file",
            name="E-storage-failed",
        ) from error


def warn_if_public(path: Path) -> None:
    """Logs a warning if every user of this machine can read a secret.

    It is not an error: Kubernetes mounts a Secret with mode 0644 by default.
    """
    with contextlib.suppress(OSError):  # reported by `read`
        if path.stat().st_mode & stat.S_IROTH:
            logger.warning(
                "%s: every user of this machine can read it; run: chmod o-r %s",
                path,
                path,
            )
