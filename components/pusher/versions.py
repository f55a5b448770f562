"""Versions of a model in a directory, as TensorFlow Serving reads them."""

from __future__ import annotations

import os
import time

from tfx import v1 as tfx

# Written by `tf.saved_model.save`, with an identifier that no two saves share.
_FINGERPRINT_FILE = "fingerprint.pb"


def newest_version(directory: str) -> int | None:
    """Returns the highest version that a directory holds, or None."""
    if not tfx.dsl.io.fileio.isdir(directory):
        return None
    names = (name.rstrip("/") for name in tfx.dsl.io.fileio.listdir(directory))
    return max((int(name) for name in names if name.isdigit()), default=None)


def next_version(directory: str) -> int:
    """Returns a version above all others: the time in milliseconds, where that is.

    Not in seconds: a version that was deleted must not be chosen again at once.
    """
    return max(time.time_ns() // 1_000_000, (newest_version(directory) or 0) + 1)


def is_same_model(model: str, other: str) -> bool:
    """Tells whether two directories hold copies of one SavedModel."""
    paths = [os.path.join(path, _FINGERPRINT_FILE) for path in (model, other)]
    if not all(tfx.dsl.io.fileio.exists(path) for path in paths):
        return False
    first, second = (tfx.dsl.io.fileio.open(path, "rb").read() for path in paths)
    return first == second
