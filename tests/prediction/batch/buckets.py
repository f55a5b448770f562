"""Two buckets to predict into: of Google's clients, and of a file system for tests."""

import os
import shutil
from pathlib import Path

from apache_beam.io import localfilesystem
from apache_beam.io.filesystem import FileMetadata
from apache_beam.io.filesystems import FileSystems

from tests.prediction.batch.conftest import read_shards


class LocalBucketFileSystem(localfilesystem.LocalFileSystem):
    """A remote file system of Beam, `bucket://`, on a local directory."""

    root = ""

    @classmethod
    def scheme(cls):
        return "bucket"

    def _local(self, path):
        return f"{self.root}/{path.removeprefix('bucket://')}"

    def join(self, base, *parts):
        return "/".join([base.rstrip("/"), *parts])

    def split(self, path):
        return tuple(path.rsplit("/", 1))

    def mkdirs(self, path):
        super().mkdirs(self._local(path))

    def _list(self, prefix):
        for path in sorted(Path(self.root).rglob("*")):
            name = f"bucket://{path.relative_to(self.root)}"
            if path.is_file() and name.startswith(prefix):
                stat = path.stat()
                yield FileMetadata(name, stat.st_size, stat.st_mtime)

    def _path_open(self, path, *args, **kwargs):
        return super()._path_open(self._local(path), *args, **kwargs)

    def create(self, path, *args, **kwargs):
        Path(self._local(path)).parent.mkdir(parents=True, exist_ok=True)
        return self._path_open(path, "wb", *args, **kwargs)

    def rename(self, sources, targets):
        super().rename(
            *([self._local(p) for p in paths] for paths in (sources, targets))
        )

    def exists(self, path):
        return os.path.isfile(self._local(path))

    def has_dirs(self):
        return False

    def metadata(self, path):
        return FileMetadata(path, os.path.getsize(self._local(path)))

    def delete(self, paths):
        for path in map(self._local, paths):
            shutil.rmtree(path) if os.path.isdir(path) else os.remove(path)


class LocalBucket:
    """A bucket of `LocalBucketFileSystem`, whose requests can be made to fail."""

    def __init__(self, root):
        self._root = Path(root)

    def url(self, name):
        return f"bucket://{name}"

    def names(self):
        """Returns the names of all objects."""
        paths = [path for path in self._root.rglob("*") if path.is_file()]
        return sorted(str(path.relative_to(self._root)) for path in paths)

    def write(self, name, content=b""):
        (self._root / name).parent.mkdir(parents=True, exist_ok=True)
        (self._root / name).write_bytes(content)

    def read(self, name):
        return (self._root / name).read_bytes()

    def delete(self, name):
        (self._root / name).unlink()

    def updated(self, name):
        """Returns when an object was written."""
        return (self._root / name).stat().st_mtime_ns


class GoogleBucket:
    """A bucket of `tests.object_store`."""

    def __init__(self, url, store):
        self._url = url
        self._store = store

    def url(self, name):
        return f"{self._url}/{name}"

    def names(self):
        """Returns the names of all objects."""
        return self._store.keys(self._url)

    def write(self, name, content=b""):
        self._store.write(self.url(name), content)

    def read(self, name):
        return self._store.read(self.url(name))

    def delete(self, name):
        self._store.delete(self.url(name))

    def updated(self, name):
        """Returns when an object was written."""
        (file,) = FileSystems.match([self.url(name)])[0].metadata_list
        return file.last_updated_in_seconds


def read_rows(bucket, directory):
    """Returns the predicted rows of a directory of a bucket.

    Args:
      bucket: A bucket of this file.
      directory: An empty local directory.
    """
    for name in bucket.names():
        (directory / Path(name).name).write_bytes(bucket.read(name))
    return read_shards(directory, "tsv")
