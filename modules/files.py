"""Local and remote files; a written file appears complete or not at all.

Importing this module and reading local files do not import TensorFlow.
"""

from __future__ import annotations

import contextlib
import errno
import fnmatch
import json
import math
import os
import posixpath
import re
import shutil
import stat
import time
import uuid
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any, TypeVar

from modules import file_format, uris
from modules.errors import UsageError

_T = TypeVar("_T")

_CLOUD_STORAGE = "gs://"
_OBJECT_STORES = (_CLOUD_STORAGE, "s3://", "minio://")
_INCOMPLETE = "could not be read completely"
# In messages of TensorFlow's client of Cloud Storage, and the one of this module.
_OUTAGES = (
    _INCOMPLETE,
    "retry attempts failed",
    "HTTP response code",
    "libcurl code",
    "JSON response from GCS",
    "File contents are inconsistent",
)
_SHARD = re.compile(r"(.*-)(\d+)-of-(\d+)(.*)")
_PAUSES = (1, 1, 1, 1, 1, 1)  # TensorFlow caches the sizes of objects for 5 seconds
_CANNOT_SYNC = (errno.EBADF, errno.EINVAL, errno.ENOTSUP)


class MissingRecordsError(UsageError):
    """No file matches the patterns of records to read, or a shard is missing."""


def list_files(directory: str) -> list[str]:
    """Returns the paths of all files below a directory, relative to it, sorted."""
    return sorted(
        posixpath.relpath(posixpath.join(folder, name), directory)
        for folder, names in _walk(directory)
        for name in names
    )


def list_names(directory: str) -> set[str]:
    """Returns the names in a directory; empty if it does not exist.

    Raises:
      tf.errors.OpError: The storage does not respond.
    """
    return {name.rstrip("/") for name in _list(directory)}


def list_directories(directory: str) -> set[str]:
    """Returns the names of the directories in a directory; see `list_names`."""
    names = _list(directory)
    return {n.rstrip("/") for n in names if _names_directory(directory, n)}


def is_directory(path: str) -> bool:
    """Returns whether a path is a directory.

    `tf.io.gfile.isdir` is also False if the storage does not respond, and `listdir` and
    `walk` use it.

    Raises:
      tf.errors.OpError: The storage does not respond.
    """
    if uris.is_local(path):
        return os.path.isdir(path)
    from tensorflow import errors

    try:
        return _gfile().stat(path).is_directory
    except errors.NotFoundError:
        return False


def exists(path: str) -> bool:
    """Returns whether a file or a directory exists."""
    if uris.is_local(path):
        return os.path.exists(path)
    # For 5 seconds `tf.io.gfile.exists` finds a directory that was renamed or deleted.
    return posixpath.basename(path) in list_names(posixpath.dirname(path))


def size(path: str) -> int | None:
    """Returns the size of a file in bytes; None if it does not exist."""
    if uris.is_local(path):
        try:
            status = os.stat(path)
        except (FileNotFoundError, NotADirectoryError):
            return None
        return None if stat.S_ISDIR(status.st_mode) else status.st_size
    from tensorflow import errors

    try:
        return _gfile().stat(path).length
    except errors.NotFoundError:
        return None


def read(path: str) -> bytes | None:
    """Returns the content of a file; None if it does not exist.

    Raises:
      tf.errors.OpError: The storage does not respond, or only with a part of the file.
    """
    if uris.is_local(path):
        try:
            with open(path, "rb") as file:
                return file.read()
        except FileNotFoundError:
            return None
    return _until_whole(lambda: _read_remote(path))


def is_outage(message: str) -> bool:
    """Returns whether the message of an error is about an object store that fails.

    The type does not show it: TensorFlow raises the same types for damaged files. A
    missing object (404) is not an outage.
    """
    is_missing = "HTTP response code 404" in message
    return not is_missing and any(text in message for text in _OUTAGES)


def incomplete_read(path: str) -> Exception:
    """Returns the error about a file that an object store returned only in part."""
    from tensorflow import errors

    return errors.DataLossError(None, None, f"{path} {_INCOMPLETE}")


def _read_remote(path: str) -> bytes | None:
    from tensorflow import errors

    content = b""
    try:
        with _gfile().GFile(path, "rb") as file:
            # In chunks: `read()` stops at the size that TensorFlow cached up to 5
            # seconds ago, and another process may have written a longer object.
            while chunk := file.read(1 << 20):
                content += chunk
    except errors.NotFoundError:
        return None
    if len(content) < (size(path) or 0):
        raise incomplete_read(path)
    return content


def _until_whole(action: Callable[[], _T]) -> _T:
    """Reads a remote file again as long as only a part of it arrives.

    TensorFlow takes a truncated response for the whole file, unless it has cached the
    size. If another process has shortened the file since, the cached size is wrong.

    Args:
      action: Reads the file, and compares its size.

    Raises:
      tf.errors.OpError: Only a part arrives, or the storage does not respond.
    """
    from tensorflow import errors

    for pause in _PAUSES:
        try:
            return action()
        except (errors.DataLossError, errors.InternalError):
            time.sleep(pause)
    return action()


def list_records(patterns: Iterable[str]) -> list[str]:
    """Returns the files of records that match patterns, in the order to read them in.

    It leaves out files about the records, incomplete files, and folders of lost
    attempts of a Beam job (`FileBasedSink._create_temp_dir`).

    Args:
      patterns: Local or remote file patterns.

    Raises:
      MissingRecordsError: No file matches, or a shard is missing.
    """
    patterns = list(patterns)
    others = ("_", ".", "beam-temp-")
    paths = sorted(
        path
        for pattern in patterns
        for path in _gfile().glob(pattern)
        if not posixpath.basename(path.rstrip("/")).startswith(others)
    )
    if not paths:
        raise MissingRecordsError(
            f"no file of records matches {', '.join(patterns)}. If a component wrote "
            "them, delete the directory of that output; the next run writes it again",
            "E-records-missing",
        )
    refuse_missing_shards(paths, patterns)
    return paths


def refuse_missing_shards(paths: Iterable[str], patterns: Iterable[str]) -> None:
    """Refuses files such as `train-00000-of-00002.gz` without the others of their set.

    Args:
      paths: Files that match the patterns.
      patterns: A shard that they do not match was left out on purpose.

    Raises:
      MissingRecordsError: A shard is missing.
    """
    names = [posixpath.basename(pattern) for pattern in patterns]
    sets: dict[tuple[str, str, str], dict[int, int]] = {}
    for shard in filter(None, map(_SHARD.fullmatch, paths)):
        start, number, count, end = shard.groups()
        sets.setdefault((start, count, end), {})[int(number)] = len(number)
    for (start, count, end), numbers in sorted(sets.items()):
        # Some programs count from 1.
        first = 0 if 0 in numbers or int(count) not in numbers else 1
        digits = min(numbers.values())  # 1 if no zeros are before the numbers
        for number in range(first, first + int(count)):
            path = f"{start}{number:0{digits}}-of-{count}{end}"
            name = posixpath.basename(path)
            if number in numbers or not any(fnmatch.fnmatch(name, n) for n in names):
                continue
            raise MissingRecordsError(
                f"{path} is missing, and other files of its set exist. Restore it, or "
                "rename them without -of- if you need no others. If a component "
                "wrote them, delete the directory of that output; the next run writes "
                "it again",
                "E-records-missing",
            )


def make_directory(path: str) -> None:
    """Creates a directory and its parents, except in an object store.

    There `tf.io.gfile.makedirs` would write an empty object `path/`, which the launcher
    of Kubeflow Pipelines takes for a file.
    """
    if not path.startswith(_OBJECT_STORES):
        _gfile().makedirs(path)


def delete_directory_markers(directory: str, root: str | None = None) -> None:
    """Deletes the empty objects `path/` in and below a directory of an object store.

    TensorFlow writes them wherever it creates a directory, also in C++.

    Args:
      directory: The directory. Outside an object store nothing happens.
      root: A parent of the directory. The markers between the two are deleted, too.
    """
    if not directory.startswith(_OBJECT_STORES):
        return
    folders = [folder for folder, _ in _walk(directory)]
    parent = posixpath.dirname(directory)
    while root is not None and parent.startswith(f"{root}/"):
        folders.append(parent)
        parent = posixpath.dirname(parent)
    for folder in folders:
        delete(f"{folder}/")


def delete(path: str) -> None:
    """Deletes a file, if it exists."""
    if uris.is_local(path):
        with contextlib.suppress(FileNotFoundError):
            os.remove(path)
        return
    from tensorflow import errors

    with contextlib.suppress(errors.NotFoundError):
        _gfile().remove(path)


def delete_directory(path: str) -> None:
    """Deletes a directory with all files below it, if it exists.

    Links are deleted, and what they point to is kept.
    """
    # `tf.io.gfile.rmtree` follows links: it would delete files elsewhere.
    if uris.is_local(path):
        if os.path.islink(path):
            os.remove(path)
        elif os.path.exists(path):
            shutil.rmtree(path)
    elif _gfile().exists(path):
        _gfile().rmtree(path)


def rename(source: str, destination: str) -> None:
    """Renames a file or a directory, replacing an older file."""
    _gfile().rename(source, destination, overwrite=True)


def sync(path: str) -> None:
    """Writes a local file, or the names in a local directory, to the disk.

    Otherwise a power loss may leave an empty file under its new name, or the old name.
    """
    if uris.is_local(path):
        descriptor = os.open(path, os.O_RDONLY)
        try:
            os.fsync(descriptor)
        except OSError as error:
            # SMB and some file systems in user space cannot sync directories.
            if error.errno not in _CANNOT_SYNC or not os.path.isdir(path):
                raise
        finally:
            os.close(descriptor)


def sync_directory(path: str) -> None:
    """Writes a local directory with all files below it to the disk."""
    if uris.is_local(path):
        for folder, _, names in os.walk(path):
            for name in names:
                sync(os.path.join(folder, name))
            sync(folder)


def copy_directory(source: str, destination: str) -> None:
    """Copies a directory with all files below it, replacing an older one."""
    delete_directory(destination)
    for name in list_files(source):
        path = uris.join(destination, name)
        make_directory(posixpath.dirname(path))
        _copy_file(uris.join(source, name), path)


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
        _copy_file(source, incomplete)


def write_json(path: str, content: Any) -> None:
    """Writes JSON. NaN and infinity become null, because JSON lacks both."""
    write(path, json.dumps(_finite(content), indent=2, allow_nan=False) + "\n")


def write_record(path: str, content: Mapping[str, Any]) -> None:
    """Writes JSON that this project reads back, with the format number."""
    write_json(path, file_format.with_format(content))


def read_json(path: str) -> Any:
    """Reads JSON; returns None if the file does not exist."""
    content = read(path)
    return None if content is None else json.loads(content)


def read_record(path: str) -> Any:
    """Reads what `write_record` wrote; returns None if the file does not exist.

    Raises:
      FormatError: This release cannot read the format.
    """
    content = read(path)
    return None if content is None else file_format.parse(content, path)


@contextlib.contextmanager
def incomplete_beside(path: str) -> Iterator[str]:
    """Yields a temporary path for the content of a file, in the same directory.

    If the context raises, the path is deleted.
    """
    # The name is unique, because two processes may write the same file. Patterns such
    # as *.gz do not match what a killed process leaves behind.
    incomplete = uris.join(os.path.dirname(path), f".incomplete-{uuid.uuid4().hex}")
    try:
        yield incomplete
    except BaseException:
        # Its own error would hide the one that says what is wrong.
        with contextlib.suppress(Exception):
            delete(incomplete)
        raise


@contextlib.contextmanager
def _renamed_when_complete(path: str) -> Iterator[str]:
    with incomplete_beside(path) as incomplete:
        yield incomplete
        sync(incomplete)
        rename(incomplete, path)


def _copy_file(source: str, destination: str) -> None:
    if uris.is_local(source):
        _gfile().copy(source, destination, overwrite=True)
    else:
        _until_whole(lambda: _copy_remote(source, destination))


def _copy_remote(source: str, destination: str) -> None:
    before = size(source)
    _gfile().copy(source, destination, overwrite=True)
    # Another process may have replaced or deleted the file.
    sizes = [number for number in (before, size(source)) if number is not None]
    if (size(destination) or 0) < min(sizes, default=0):
        raise incomplete_read(source)


def _list(directory: str) -> list[str]:
    """Returns the names in a directory; in Cloud Storage, directories end with `/`."""
    if not is_directory(directory):
        return []
    # The directory may disappear here.
    if uris.is_local(directory):
        with contextlib.suppress(FileNotFoundError, NotADirectoryError):
            return os.listdir(directory)
        return []
    from tensorflow import errors

    try:
        return _gfile().listdir(directory)
    except errors.NotFoundError:  # also after a failed request
        return _gfile().listdir(directory) if is_directory(directory) else []


def _names_directory(parent: str, name: str) -> bool:
    """Returns whether a name that `_list` returned is that of a directory."""
    # One request less for each name. TensorFlow's other file systems have no `/` there:
    # `GetChildren` in s3_filesystem.cc of tensorflow/io removes it.
    if parent.startswith(_CLOUD_STORAGE):
        return name.endswith("/")
    return is_directory(posixpath.join(parent, name))


def _walk(directory: str) -> Iterator[tuple[str, list[str]]]:
    """Yields a directory and those below it, each with the names of its files."""
    names = _list(directory)
    folders = {name for name in names if _names_directory(directory, name)}
    yield directory, [name for name in names if name not in folders]
    for folder in folders:
        yield from _walk(posixpath.join(directory, folder.rstrip("/")))


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
