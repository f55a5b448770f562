"""Local and remote files; a written file appears complete or not at all.

A package that can read remote files registers how; see `register_remote`.
"""

from __future__ import annotations

import contextlib
import errno
import fnmatch
import glob
import json
import math
import os
import posixpath
import re
import shutil
import stat
import uuid
from collections.abc import Iterable, Iterator, Mapping
from typing import IO, Any, Protocol

from contracts.errors import UsageError
from contracts.storage import reachability, uris

_SHARD = re.compile(r"(.*-)(\d+)-of-(\d+)(.*)")
_REWRITE = (
    "if a component wrote them, delete the directory of that output; the next run "
    "writes it again"
)
_CANNOT_SYNC = (errno.EBADF, errno.EINVAL, errno.ENOTSUP)

# The number of the format of a JSON file that this project reads back. A file without a
# number has the first format.
FORMAT = 1
_KEY = "format"


class RemoteFiles(Protocol):
    """Files that are not on this machine, such as `gs://bucket/file`.

    If the storage does not respond, the methods raise errors of their own type, such as
    tf.errors.OpError.
    """

    def open(self, path: str, mode: str) -> IO[Any]:
        """Opens a file in the mode `rb` or `wb`."""

    def read(self, path: str) -> bytes | None:
        """Returns the whole content of a file; None if it does not exist."""

    def size(self, path: str) -> int | None:
        """Returns the size of a file in bytes; None if it does not exist."""

    def is_directory(self, path: str) -> bool:
        """Returns whether a path is a directory."""

    def list_names(self, directory: str) -> list[str]:
        """Returns the names in a directory; those of directories may end with `/`."""

    def is_directory_name(self, directory: str, name: str) -> bool:
        """Returns whether a name of `list_names` is the name of a directory."""

    def glob(self, pattern: str) -> list[str]:
        """Returns the paths that match a pattern."""

    def make_directory(self, path: str) -> None:
        """Creates a directory and its parents, where the storage has directories."""

    def delete(self, path: str) -> None:
        """Deletes a file, if it exists."""

    def delete_directory(self, path: str) -> None:
        """Deletes a directory with all files below it, if it exists."""

    def rename(self, source: str, destination: str) -> None:
        """Renames a file or a directory, replacing an older file."""

    def copy(self, source: str, destination: str) -> None:
        """Copies a file, replacing an older one. One of the two may be local."""


_registered: list[RemoteFiles] = []


def register_remote(remote: RemoteFiles) -> None:
    """Sets how remote files are read and written; `modules` registers TensorFlow."""
    _registered[:] = [remote]


def _remote(path: str) -> RemoteFiles:
    if not _registered:
        raise unreachable(path)
    return _registered[0]


def check_remote(path: str) -> None:
    """Refuses a remote path early if nothing here can read it; a local one is not read.

    Call it where a command first uses a path: clients of an object store try for
    minutes. Components of a run do not, because they survive short failures.

    Raises:
      UsageError: Its scheme is not that of the object store, the package that reads
        remote files is missing, or the object store does not respond.
    """
    if not uris.is_local(path):
        uris.refuse_scheme(path, path)
        _remote(path)
        reachability.check(path)


def unreachable(path: str) -> UsageError:
    """Returns the error about a remote file without a package that reads it."""
    return UsageError(
        path,
        "only an installation with TensorFlow reads remote files",
        advice="copy it to this machine",
        name="E-storage-failed",
    )


class FormatError(UsageError, ValueError):
    """A file has a format that this release cannot read.

    A command reports it; code that skips unreadable files treats it as bad JSON.
    """


class MissingRecordsError(UsageError):
    """No file matches the patterns of records to read, or a shard is missing."""


def list_files(directory: str) -> list[str]:
    """Returns the paths of all files below a directory, relative to it, sorted."""
    return sorted(
        posixpath.relpath(posixpath.join(folder, name), directory)
        for folder, names in walk(directory)
        for name in names
    )


def list_names(directory: str) -> set[str]:
    """Returns the names in a directory; empty if it does not exist.

    Raises:
      OSError: The directory is local and cannot be read; see also `RemoteFiles`.
    """
    return {name.rstrip("/") for name in _list(directory)}


def list_directories(directory: str) -> set[str]:
    """Returns the names of the directories in a directory; see `list_names`."""
    names = _list(directory)
    return {n.rstrip("/") for n in names if _is_directory_name(directory, n)}


def is_directory(path: str) -> bool:
    """Returns whether a path is a directory."""
    if uris.is_local(path):
        return os.path.isdir(path)
    return _remote(path).is_directory(path)


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
    return _remote(path).size(path)


def open_binary(path: str) -> IO[bytes]:
    """Opens a file for reading, local or remote."""
    return open(path, "rb") if uris.is_local(path) else _remote(path).open(path, "rb")


def read(path: str) -> bytes | None:
    """Returns the content of a file; None if it does not exist.

    Raises:
      OSError: The file is local and cannot be read; see also `RemoteFiles`.
    """
    if uris.is_local(path):
        try:
            with open(path, "rb") as file:
                return file.read()
        except FileNotFoundError:
            return None
    return _remote(path).read(path)


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
        for path in _glob(pattern)
        if not posixpath.basename(path.rstrip("/")).startswith(others)
    )
    if not paths:
        raise MissingRecordsError(
            ", ".join(patterns),
            "no file of records matches",
            advice=_REWRITE,
            name="E-record-damaged",
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
                path,
                "missing, but other files of its set exist",
                advice="restore it, or rename them without -of- if you need no others; "
                + _REWRITE,
                name="E-record-damaged",
            )


def make_directory(path: str) -> None:
    """Creates a directory and its parents, except in an object store."""
    if uris.is_local(path):
        os.makedirs(path or os.curdir, exist_ok=True)
    else:
        _remote(path).make_directory(path)


def delete(path: str) -> None:
    """Deletes a file, if it exists."""
    if uris.is_local(path):
        with contextlib.suppress(FileNotFoundError):
            os.remove(path)
    else:
        _remote(path).delete(path)


def delete_directory(path: str) -> None:
    """Deletes a directory with all files below it, if it exists.

    Links are deleted, and what they point to is kept.
    """
    if not uris.is_local(path):
        _remote(path).delete_directory(path)
    elif os.path.islink(path):
        os.remove(path)
    elif os.path.exists(path):
        shutil.rmtree(path)


def rename(source: str, destination: str) -> None:
    """Renames a file or a directory, replacing an older file."""
    if uris.is_local(source):
        os.replace(source, destination)
    else:
        _remote(source).rename(source, destination)


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
    binary = content.encode() if isinstance(content, str) else content
    with _renamed_when_complete(path) as incomplete:
        if not uris.is_local(path):
            with _remote(path).open(incomplete, "wb") as file:
                file.write(binary)
            return
        try:
            with open(incomplete, "wb") as file:
                file.write(binary)
        except OSError as error:
            if error.filename is not None:
                raise
            # Of a full disk, which names no file.
            raise OSError(error.errno, error.strerror, path) from error


def copy(source: str, destination: str) -> None:
    """Copies a file, replacing an older one; creates the directory."""
    make_directory(os.path.dirname(destination))
    with _renamed_when_complete(destination) as incomplete:
        _copy_file(source, incomplete)


def write_json(path: str, content: Any) -> None:
    """Writes JSON. NaN and infinity become null, because JSON lacks both."""
    write(path, json.dumps(_finite(content), indent=2, allow_nan=False) + "\n")


def with_format(content: Mapping[str, Any], number: int = FORMAT) -> dict[str, Any]:
    """Returns the content of a file, with the format number first."""
    return {_KEY: number, **content}


def parse_record(text: str | bytes, path: object, expected: int = FORMAT) -> Any:
    """Returns the content of a JSON file, without the format number.

    Args:
      text: The file's text. Only an object has a format number.
      path: Names the file in the error.
      expected: The format number that this release reads.

    Raises:
      FormatError: This release cannot read the format.
      ValueError: The text is not JSON.
    """
    try:
        content = json.loads(text)
    except RecursionError as error:
        raise ValueError("its brackets are nested too deeply") from error
    number = content.pop(_KEY, FORMAT) if isinstance(content, dict) else expected
    if number != expected:
        raise FormatError(
            str(path),
            f"its format is {number!r}",
            f"{expected}, which this release reads",
            "use the release that wrote the file, or another output directory",
            name="E-file-format-other",
        )
    return content


def write_record(path: str, content: Mapping[str, Any], number: int = FORMAT) -> None:
    """Writes JSON that this project reads back, with the format number."""
    write_json(path, with_format(content, number))


def read_json(path: str) -> Any:
    """Reads JSON; returns None if the file does not exist."""
    content = read(path)
    return None if content is None else json.loads(content)


def read_record(path: str, number: int = FORMAT) -> Any:
    """Reads what `write_record` wrote; returns None if the file does not exist.

    Raises:
      FormatError: This release cannot read the format.
    """
    content = read(path)
    return None if content is None else parse_record(content, path, number)


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
        if uris.is_local(path):
            with contextlib.suppress(FileNotFoundError):  # also of the older file
                shutil.copymode(path, incomplete)
        sync(incomplete)
        rename(incomplete, path)


def _copy_file(source: str, destination: str) -> None:
    remote = next((p for p in (source, destination) if not uris.is_local(p)), None)
    if remote is None:
        shutil.copy(source, destination)  # with the permissions, as TensorFlow does
    else:
        _remote(remote).copy(source, destination)


def _glob(pattern: str) -> list[str]:
    if uris.is_local(pattern):
        return glob.glob(pattern)
    return _remote(pattern).glob(pattern)


def _list(directory: str) -> list[str]:
    """Returns the names in a directory; those of remote directories may end in `/`."""
    if not uris.is_local(directory):
        return _remote(directory).list_names(directory)
    if not is_directory(directory):
        return []
    try:
        return os.listdir(directory)
    except (FileNotFoundError, NotADirectoryError):  # the directory has disappeared
        return []


def _is_directory_name(directory: str, name: str) -> bool:
    if uris.is_local(directory):
        # False for a link that cannot be resolved, unlike `os.DirEntry.is_dir`.
        return os.path.isdir(os.path.join(directory, name))
    return _remote(directory).is_directory_name(directory, name)


def walk(directory: str) -> Iterator[tuple[str, list[str]]]:
    """Yields a directory and those below it, each with the names of its files."""
    names = _list(directory)
    folders = {name for name in names if _is_directory_name(directory, name)}
    yield directory, [name for name in names if name not in folders]
    for folder in folders:
        yield from walk(posixpath.join(directory, folder.rstrip("/")))


def _finite(content: Any) -> Any:
    if isinstance(content, dict):
        return {key: _finite(value) for key, value in content.items()}
    if isinstance(content, list | tuple):
        return [_finite(value) for value in content]
    if isinstance(content, float) and not math.isfinite(content):
        return None
    return content
