"""How the user started this program."""

from __future__ import annotations

import os
import shlex
import sys


def command(*arguments: object) -> str:
    """Returns a command of this program as a user types it in a shell."""
    python = os.path.relpath(sys.executable)
    python = sys.executable if python.startswith("..") else python
    return shlex.join([python, "-m", "pipeline", *map(str, arguments)])
