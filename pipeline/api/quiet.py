"""Hides notices of libraries in a user's own process."""

from __future__ import annotations

import contextlib
import logging
from collections.abc import Iterator

from absl import logging as absl_logging

from modules import environment


@contextlib.contextmanager
def quiet() -> Iterator[None]:
    """Sets this process up for TensorFlow, and hides notices inside the context.

    The levels of the user's logging are then restored.
    """
    root = logging.getLogger()
    level, verbosity = root.level, absl_logging.get_verbosity()
    environment.set_up(quiet=True)
    absl_logging.set_verbosity(absl_logging.ERROR)
    try:
        yield
    finally:
        root.setLevel(level)
        absl_logging.set_verbosity(verbosity)
