"""Remote files through TensorFlow, which importing this module does not import."""

from __future__ import annotations

import contextlib
import posixpath
import time
from collections.abc import Callable
from typing import IO, Any, TypeVar

from contracts.storage import files, uris

_T = TypeVar("_T")

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
_PAUSES = (1, 1, 1, 1, 1, 1)  # TensorFlow caches the sizes of objects for 5 seconds


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


def delete_directory_markers(directory: str, root: str | None = None) -> None:
    """Deletes the empty objects `path/` in and below a directory of an object store.

    TensorFlow writes them wherever it creates a directory, also in C++. The launcher of
    Kubeflow Pipelines takes them for files.

    Args:
      directory: The directory. Outside an object store nothing happens.
      root: A parent of the directory. The markers between the two are deleted, too.
    """
    if not directory.startswith(uris.OBJECT_STORE):
        return
    folders = [folder for folder, _ in files.walk(directory)]
    parent = posixpath.dirname(directory)
    while root is not None and parent.startswith(f"{root}/"):
        folders.append(parent)
        parent = posixpath.dirname(parent)
    for folder in folders:
        files.delete(f"{folder}/")


class TensorFlowFiles:
    """The file systems of `tf.io.gfile`, as `contracts.storage.files.RemoteFiles`.

    If the storage does not respond, each method raises tf.errors.OpError.
    """

    # ruff: noqa: D102 (the docstrings are those of RemoteFiles)

    def open(self, path: str, mode: str) -> IO[Any]:
        return _gfile().GFile(path, mode)

    def read(self, path: str) -> bytes | None:
        return _until_whole(lambda: self._read(path))

    def size(self, path: str) -> int | None:
        from tensorflow import errors

        try:
            return _gfile().stat(path).length
        except errors.NotFoundError:
            return None

    def is_directory(self, path: str) -> bool:
        # `tf.io.gfile.isdir` is also False if the storage does not respond, and
        # `listdir` and `walk` use it.
        from tensorflow import errors

        try:
            return _gfile().stat(path).is_directory
        except errors.NotFoundError:
            return False

    def list_names(self, directory: str) -> list[str]:
        from tensorflow import errors

        if not self.is_directory(directory):
            return []
        try:
            names = _gfile().listdir(directory)
        except errors.NotFoundError:  # also after a failed request
            names = _gfile().listdir(directory) if self.is_directory(directory) else []
        return names

    def is_directory_name(self, directory: str, name: str) -> bool:
        # One request less for each name. TensorFlow's other file systems have no `/`
        # there: `GetChildren` in s3_filesystem.cc of tensorflow/io removes it.
        if directory.startswith(uris.OBJECT_STORE):
            return name.endswith("/")
        return self.is_directory(posixpath.join(directory, name))

    def glob(self, pattern: str) -> list[str]:
        return _gfile().glob(pattern)

    def make_directory(self, path: str) -> None:
        # There `tf.io.gfile.makedirs` would write an empty object `path/`; see
        # `delete_directory_markers`.
        if not path.startswith(uris.OBJECT_STORE):
            _gfile().makedirs(path)

    def delete(self, path: str) -> None:
        from tensorflow import errors

        with contextlib.suppress(errors.NotFoundError):
            _gfile().remove(path)

    def delete_directory(self, path: str) -> None:
        if _gfile().exists(path):
            _gfile().rmtree(path)

    def rename(self, source: str, destination: str) -> None:
        _gfile().rename(source, destination, overwrite=True)

    def copy(self, source: str, destination: str) -> None:
        if uris.is_local(source):
            _gfile().copy(source, destination, overwrite=True)
        else:
            _until_whole(lambda: self._copy(source, destination))

    def _read(self, path: str) -> bytes | None:
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
        if len(content) < (self.size(path) or 0):
            raise incomplete_read(path)
        return content

    def _copy(self, source: str, destination: str) -> None:
        before = self.size(source)
        _gfile().copy(source, destination, overwrite=True)
        # Another process may have replaced or deleted the file.
        sizes = [n for n in (before, self.size(source)) if n is not None]
        if (files.size(destination) or 0) < min(sizes, default=0):
            raise incomplete_read(source)


def _until_whole(action: Callable[[], _T]) -> _T:
    """Reads a remote file again as long as only a part of it arrives.

    TensorFlow takes a truncated response for the whole file, unless it has cached the
    size. If another process has shortened the file since, the cached size is wrong.

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


def _gfile() -> Any:
    from tensorflow.io import gfile

    return gfile
