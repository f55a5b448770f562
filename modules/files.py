"""Local and remote files that appear complete or not at all."""

from __future__ import annotations

import contextlib
import json
import math
import os
import uuid
from collections.abc import Iterator
from typing import Any

import tensorflow as tf


def write(path: str, content: str | bytes) -> None:
    """Writes a file, replacing an older one; creates its directory."""
    with _renamed_when_complete(path) as incomplete:
        mode = "w" if isinstance(content, str) else "wb"
        with tf.io.gfile.GFile(incomplete, mode) as file:
            file.write(content)


def copy(source: str, destination: str) -> None:
    """Copies a file, replacing an older one; creates the directory."""
    with _renamed_when_complete(destination) as incomplete:
        tf.io.gfile.copy(source, incomplete)


def write_json(path: str, content: Any) -> None:
    """Writes JSON. It has no NaN and no infinity: both become null."""
    write(path, json.dumps(_finite(content), indent=2, allow_nan=False) + "\n")


def read_json(path: str) -> Any:
    """Reads JSON; returns None if there is no file."""
    if not tf.io.gfile.exists(path):
        return None
    with tf.io.gfile.GFile(path) as file:
        return json.load(file)


@contextlib.contextmanager
def incomplete_beside(path: str) -> Iterator[str]:
    """Creates the directory of a file, and yields a path there for its content.

    An error deletes what was written to that path.
    """
    directory = os.path.dirname(path)
    tf.io.gfile.makedirs(directory)
    # Unique, as two processes may write the same file. Patterns such as *.gz do not
    # match it if a killed process leaves it behind.
    incomplete = os.path.join(directory, f".incomplete-{uuid.uuid4().hex}")
    try:
        yield incomplete
    except BaseException:
        if tf.io.gfile.exists(incomplete):
            tf.io.gfile.remove(incomplete)
        raise


@contextlib.contextmanager
def _renamed_when_complete(path: str) -> Iterator[str]:
    with incomplete_beside(path) as incomplete:
        yield incomplete
        tf.io.gfile.rename(incomplete, path, overwrite=True)


def _finite(content: Any) -> Any:
    if isinstance(content, dict):
        return {key: _finite(value) for key, value in content.items()}
    if isinstance(content, list | tuple):
        return [_finite(value) for value in content]
    if isinstance(content, float) and not math.isfinite(content):
        return None
    return content
