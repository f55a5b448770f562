"""Versions of a model in a directory, as TensorFlow Serving reads them."""

from __future__ import annotations

import os
import time

from tfx import v1 as tfx

# Written by `tf.saved_model.save`, with an identifier that no two saves share.
_FINGERPRINT_FILE = "fingerprint.pb"


def list_versions(directory: str) -> list[int]:
    """Returns the versions that a directory holds, the newest first."""
    if not tfx.dsl.io.fileio.isdir(directory):
        return []
    names = (name.rstrip("/") for name in tfx.dsl.io.fileio.listdir(directory))
    return sorted((int(name) for name in names if name.isdigit()), reverse=True)


def choose_version(directory: str, model: str) -> int:
    """Returns the version to push a model as.

    Args:
      directory: Holds the versions.
      model: A SavedModel.

    Returns:
      The newest version where that is a copy of the model. Else a version above all
      others, the time in milliseconds where that is: not in seconds, for a version
      that was deleted must not be chosen again at once.
    """
    newest = next(iter(list_versions(directory)), 0)
    if newest and is_same_model(model, os.path.join(directory, str(newest))):
        return newest
    return max(time.time_ns() // 1_000_000, newest + 1)


def newest_other_version(directory: str, model: str) -> int | None:
    """Returns the newest version that is no copy of a model, or None."""
    for version in list_versions(directory):
        if not is_same_model(model, os.path.join(directory, str(version))):
            return version
    return None


def is_same_model(model: str, other: str) -> bool:
    """Tells whether two directories hold copies of one SavedModel."""
    paths = [os.path.join(path, _FINGERPRINT_FILE) for path in (model, other)]
    if not all(tfx.dsl.io.fileio.exists(path) for path in paths):
        return False
    first, second = (tfx.dsl.io.fileio.open(path, "rb").read() for path in paths)
    return first == second
