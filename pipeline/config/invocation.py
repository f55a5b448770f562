"""How the user started this program."""

from __future__ import annotations

import os
import sys


def command() -> str:
    """Returns how this process's commands start, as a user types it."""
    python = os.path.relpath(sys.executable)
    return f"{sys.executable if python.startswith('..') else python} -m pipeline"
