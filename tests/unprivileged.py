"""Tests of permissions, also for root."""

import contextlib
import os
import shutil
import tempfile
from pathlib import Path

_NOBODY = 65534


@contextlib.contextmanager
def unprivileged(directory):
    """Yields a copy of a directory, to a user without the rights of root."""
    user, parent = os.geteuid(), Path(tempfile.mkdtemp())
    root = shutil.copytree(directory, parent / "output")
    if user == 0:
        for path in (parent, *parent.rglob("*")):
            os.chown(path, _NOBODY, _NOBODY)
        os.seteuid(_NOBODY)
    try:
        yield root
    finally:
        os.seteuid(user)
        shutil.rmtree(parent)
