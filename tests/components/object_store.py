"""An object store for tests: no directories, and a rename that copies each object."""

import fnmatch
import types
from typing import ClassVar

from tfx.dsl.io import filesystem, filesystem_registry

SCHEME = "bucket://"


class Killed(BaseException):
    """The process was killed."""


class ObjectStore(filesystem.Filesystem):
    """Objects by path; `writes_left` kills the process at a later write."""

    SUPPORTED_SCHEMES = (SCHEME,)
    objects: ClassVar[dict[str, bytes]] = {}
    writes_left: ClassVar[int | None] = None

    @classmethod
    def reset(cls):
        cls.objects.clear()
        cls.writes_left = None

    @classmethod
    def _write(cls, path, content):
        if cls.writes_left is not None:
            if cls.writes_left == 0:
                raise Killed(path)
            cls.writes_left -= 1
        cls.objects[path] = content

    @classmethod
    def _below(cls, path):
        prefix = path.rstrip("/") + "/"
        return sorted(name for name in cls.objects if name.startswith(prefix))

    @classmethod
    def open(cls, name, mode="r"):
        return _File(cls, name, mode)

    @classmethod
    def copy(cls, src, dst, overwrite=False):
        cls._write(dst, cls.objects[src])

    @classmethod
    def rename(cls, src, dst, overwrite=False):
        names = [src] if src in cls.objects else cls._below(src)
        for name in names:
            cls._write(dst + name[len(src) :], cls.objects[name])
            del cls.objects[name]

    @classmethod
    def exists(cls, path):
        return path in cls.objects or bool(cls._below(path))

    @classmethod
    def isdir(cls, path):
        return bool(cls._below(path))

    @classmethod
    def listdir(cls, path):
        skipped = len(path.rstrip("/")) + 1
        return sorted({name[skipped:].split("/")[0] for name in cls._below(path)})

    @classmethod
    def glob(cls, pattern):
        return fnmatch.filter(cls.objects, pattern)

    @classmethod
    def makedirs(cls, path):
        pass

    mkdir = makedirs

    @classmethod
    def remove(cls, path):
        del cls.objects[path]

    @classmethod
    def rmtree(cls, path):
        for name in cls._below(path):
            del cls.objects[name]

    @classmethod
    def stat(cls, path):
        return types.SimpleNamespace(length=len(cls.objects[path]))

    @classmethod
    def walk(cls, top, topdown=True, onerror=None):
        folders = {name.rpartition("/")[0] for name in cls._below(top)}
        for folder in sorted(folders | {top}):
            skipped = len(folder) + 1
            names = [name[skipped:] for name in cls._below(folder)]
            yield folder, [], [name for name in names if "/" not in name]


class _File:
    def __init__(self, store, path, mode):
        self._store, self._path, self._mode = store, path, mode
        self._unread = b"" if "w" in mode else store.objects[path]
        self._written = []

    def __enter__(self):
        return self

    def __exit__(self, kind, *_):
        if "w" in self._mode and kind is None:
            self._store._write(self._path, b"".join(self._written))

    def write(self, content):
        self._written.append(content.encode() if isinstance(content, str) else content)

    def read(self, size=-1):
        end = len(self._unread) if size < 0 else size
        content, self._unread = self._unread[:end], self._unread[end:]
        return content if "b" in self._mode else content.decode()


filesystem_registry.DEFAULT_FILESYSTEM_REGISTRY.register(ObjectStore, priority=20)
