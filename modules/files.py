"""Local and remote files; those that are written appear complete or not at all.

Importing this module and reading local files do not import TensorFlow.
"""

from __future__ import annotations

import contextlib
import json
import math
import os
import posixpath
import uuid
from collections.abc import Iterable, Iterator, Mapping
from typing import Any

from modules import file_format, uris

_CHUNK_BYTES = 1 << 20
# How the names begin of what is beside records: files about them, incomplete files, and
# folders of lost attempts of a Beam job (`FileBasedSink._create_temp_dir`).
_NO_RECORDS = ("_", ".", "beam-temp-")
_OBJECT_STORES = ("gs://", "s3://", "minio://")


def list_files(directory: str) -> list[str]:
    """Returns the paths of all files below a directory, relative to it, sorted."""
    return sorted(
        posixpath.relpath(posixpath.join(folder, name), directory)
        for folder, _, names in _gfile().walk(directory)
        for name in names
    )


def list_names(directory: str) -> set[str]:
    """Returns the names of the files and directories in a directory, if it exists."""
    if uris.is_local(directory):
        return set(os.listdir(directory)) if os.path.isdir(directory) else set()
    if not _gfile().isdir(directory):
        return set()
    return {name.rstrip("/") for name in _gfile().listdir(directory)}


def exists(path: str) -> bool:
    """Returns whether there is a file or a directory."""
    if uris.is_local(path):
        return os.path.exists(path)
    # For 5 seconds `tf.io.gfile.exists` finds a directory that was renamed or deleted.
    return posixpath.basename(path) in list_names(posixpath.dirname(path))


def size(path: str) -> int | None:
    """Returns the bytes of a file; None if there is no file."""
    if uris.is_local(path):
        try:
            return os.stat(path).st_size
        except (FileNotFoundError, NotADirectoryError):
            return None
    from tensorflow import errors

    try:
        return _gfile().stat(path).length
    except errors.NotFoundError:
        return None


def read(path: str) -> bytes | None:
    """Returns the content of a file; None if there is no file."""
    if uris.is_local(path):
        try:
            with open(path, "rb") as file:
                return file.read()
        except FileNotFoundError:
            return None
    from tensorflow import errors

    content = b""
    try:
        with _gfile().GFile(path, "rb") as file:
            # Without a number of bytes, TensorFlow reads up to the size that it has
            # cached for 5 seconds; another process may have written a longer object.
            while chunk := file.read(_CHUNK_BYTES):
                content += chunk
    except errors.NotFoundError:
        return None
    return content


def list_records(patterns: Iterable[str]) -> list[str]:
    """Returns the files of records that match patterns, in the order to read them in.

    Leaves out what else is in their directories: files whose names begin with an
    underscore or a dot, and incomplete files of Beam.
    """
    return sorted(
        path
        for pattern in patterns
        for path in _gfile().glob(pattern)
        if not posixpath.basename(path.rstrip("/")).startswith(_NO_RECORDS)
    )


def make_directory(path: str) -> None:
    """Creates a directory and its parents, where directories exist.

    In an object store `tf.io.gfile.makedirs` would write an empty object `path/`, which
    the launcher of Kubeflow Pipelines takes for a file.
    """
    if not path.startswith(_OBJECT_STORES):
        _gfile().makedirs(path)


def delete_directory_markers(directory: str, root: str | None = None) -> None:
    """Deletes the empty objects `path/` of a directory in an object store, and below.

    TensorFlow writes them wherever it creates a directory, also in C++.

    Args:
      directory: The directory; nothing is done outside an object store.
      root: A parent of the directory. The markers between the two are deleted, too.
    """
    if not directory.startswith(_OBJECT_STORES):
        return
    folders = [folder.rstrip("/") for folder, _, _ in _gfile().walk(directory)]
    parent = posixpath.dirname(directory)
    while root is not None and parent.startswith(f"{root}/"):
        folders.append(parent)
        parent = posixpath.dirname(parent)
    for folder in folders:
        delete(f"{folder}/")


def delete(path: str) -> None:
    """Deletes a file, if there is one."""
    from tensorflow import errors

    with contextlib.suppress(errors.NotFoundError):
        _gfile().remove(path)


def delete_directory(path: str) -> None:
    """Deletes a directory with all files below it, if it exists."""
    if _gfile().exists(path):
        _gfile().rmtree(path)


def rename(source: str, destination: str) -> None:
    """Renames a file or a directory, replacing an older file."""
    _gfile().rename(source, destination, overwrite=True)


def copy_directory(source: str, destination: str) -> None:
    """Copies a directory with all files below it, replacing an older one."""
    delete_directory(destination)
    for name in list_files(source):
        path = uris.join(destination, name)
        make_directory(posixpath.dirname(path))
        _gfile().copy(uris.join(source, name), path, overwrite=True)


def write(path: str, content: str | bytes, *, create_directory: bool = True) -> None:
    """Writes a file, replacing an older one.

    Args:
      path: The file.
      content: Its content; text is written as UTF-8.
      create_directory: False fails where the directory does not exist.
    """
    if create_directory:
        make_directory(os.path.dirname(path))
    with _renamed_when_complete(path) as incomplete:
        mode = "w" if isinstance(content, str) else "wb"
        with _gfile().GFile(incomplete, mode) as file:
            file.write(content)


def copy(source: str, destination: str) -> None:
    """Copies a file, replacing an older one; creates the directory."""
    make_directory(os.path.dirname(destination))
    with _renamed_when_complete(destination) as incomplete:
        _gfile().copy(source, incomplete)


def write_json(path: str, content: Any) -> None:
    """Writes JSON. It has no NaN and no infinity: both become null."""
    write(path, json.dumps(_finite(content), indent=2, allow_nan=False) + "\n")


def write_record(path: str, content: Mapping[str, Any]) -> None:
    """Writes JSON that this project reads back, with the number of its format."""
    write_json(path, file_format.with_format(content))


def read_json(path: str) -> Any:
    """Reads JSON; returns None if there is no file."""
    content = read(path)
    return None if content is None else json.loads(content)


def read_record(path: str) -> Any:
    """Reads what `write_record` wrote; returns None if there is no file.

    Raises:
      FormatError: The number of its format is unknown.
    """
    content = read(path)
    return None if content is None else file_format.parse(content, path)


@contextlib.contextmanager
def incomplete_beside(path: str) -> Iterator[str]:
    """Yields a path in the directory of a file for its content.

    An error deletes what was written to that path.
    """
    # Unique, as two processes may write the same file. Patterns such as *.gz do not
    # match it if a killed process leaves it behind.
    incomplete = uris.join(os.path.dirname(path), f".incomplete-{uuid.uuid4().hex}")
    try:
        yield incomplete
    except BaseException:
        delete(incomplete)
        raise


@contextlib.contextmanager
def _renamed_when_complete(path: str) -> Iterator[str]:
    with incomplete_beside(path) as incomplete:
        yield incomplete
        rename(incomplete, path)


def _gfile() -> Any:
    """Returns TensorFlow's file systems, local ones included."""
    from tensorflow.io import gfile

    return gfile


def _finite(content: Any) -> Any:
    if isinstance(content, dict):
        return {key: _finite(value) for key, value in content.items()}
    if isinstance(content, list | tuple):
        return [_finite(value) for value in content]
    if isinstance(content, float) and not math.isfinite(content):
        return None
    return content
