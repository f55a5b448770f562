"""Prepares a user's own process, which may use TensorFlow and logging itself."""

from __future__ import annotations

import logging

from modules import environment


def set_up_quietly() -> None:
    """Calls `environment.set_up`, and leaves the level of the root logger as it is."""
    root = logging.getLogger()
    level = root.level
    environment.set_up(quiet=True)
    root.setLevel(level)
