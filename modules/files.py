"""Local and remote files that appear complete or not at all."""

from __future__ import annotations

import contextlib
import json
import math
import os
import posixpath
import uuid
from collections.abc import Iterable, Iterator
from typing import Any

import tensorflow as tf

from modules import uris

_CHUNK_BYTES = 1 << 20
# How the names begin of what is beside records: files about them, incomplete files, and
# folders of lost attempts of a Beam job (`FileBasedSink._create_temp_dir`).
_NO_RECORDS = ("_", ".", "beam-temp-")
_OBJECT_STORES = ("gs://", "s3://", "minio://")


def list_files(directory: str) -> list[str]:
    """Returns the paths of all files below a directory, relative to it, sorted."""
    return sorted(
        posixpath.relpath(posixpath.join(folder, name), directory)
        for folder, _, names in tf.io.gfile.walk(directory)
        for name in names
    )


def list_records(patterns: Iterable[str]) -> list[str]:
    """Returns the files of records that match patterns, in the order to read them in.

    Leaves out what else is in their directories: files whose names begin with an
    underscore or a dot, and incomplete files of Beam.
    """
    return sorted(
        path
        for pattern in patterns
        for path in tf.io.gfile.glob(pattern)
        if not posixpath.basename(path.rstrip("/")).startswith(_NO_RECORDS)
    )


def make_directory(path: str) -> None:
    """Creates a directory and its parents, where directories exist.

    In an object store `tf.io.gfile.makedirs` would write an empty object `path/`, which
    the launcher of Kubeflow Pipelines takes for a file.
    """
    if not path.startswith(_OBJECT_STORES):
        tf.io.gfile.makedirs(path)


def delete_directory_markers(directory: str, root: str | None = None) -> None:
    """Deletes the empty objects `path/` of a directory in an object store, and below.

    TensorFlow writes them wherever it creates a directory, also in C++.

    Args:
      directory: The directory; nothing is done outside an object store.
      root: A parent of the directory. The markers between the two are deleted, too.
    """
    if not directory.startswith(_OBJECT_STORES):
        return
    folders = [folder.rstrip("/") for folder, _, _ in tf.io.gfile.walk(directory)]
    parent = posixpath.dirname(directory)
    while root is not None and parent.startswith(f"{root}/"):
        folders.append(parent)
        parent = posixpath.dirname(parent)
    for folder in folders:
        delete(f"{folder}/")


def delete(path: str) -> None:
    """Deletes a file, if there is one."""
    with contextlib.suppress(tf.errors.NotFoundError):
        tf.io.gfile.remove(path)


def copy_directory(source: str, destination: str) -> None:
    """Copies a directory with all files below it, replacing an older one."""
    if tf.io.gfile.exists(destination):
        tf.io.gfile.rmtree(destination)
    for name in list_files(source):
        path = uris.join(destination, name)
        make_directory(posixpath.dirname(path))
        tf.io.gfile.copy(uris.join(source, name), path, overwrite=True)


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
    content = b""
    with tf.io.gfile.GFile(path, "rb") as file:
        # Without a number of bytes, TensorFlow reads up to the size that it has cached
        # for 5 seconds; another process may have written a longer object since.
        while chunk := file.read(_CHUNK_BYTES):
            content += chunk
    return json.loads(content)


@contextlib.contextmanager
def incomplete_beside(path: str) -> Iterator[str]:
    """Creates the directory of a file, and yields a path there for its content.

    An error deletes what was written to that path.
    """
    directory = os.path.dirname(path)
    make_directory(directory)
    # Unique, as two processes may write the same file. Patterns such as *.gz do not
    # match it if a killed process leaves it behind.
    incomplete = uris.join(directory, f".incomplete-{uuid.uuid4().hex}")
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
