"""Items on disk, for more rows than memory holds."""

from __future__ import annotations

import os
import pickle
import tempfile
import weakref
from collections.abc import Iterator
from typing import Generic, TypeVar

_Item = TypeVar("_Item")
_ITEMS_AT_A_TIME = 1024


class Spool(Generic[_Item]):
    """A list in an unnamed temporary file, which is deleted with the list.

    Args:
      directory: Where the file is; None is the directory of temporary files.
    """

    def __init__(self, directory: str | os.PathLike[str] | None = None) -> None:
        self._file = tempfile.TemporaryFile(dir=directory)  # noqa: SIM115
        weakref.finalize(self, self._file.close)
        self._pending: list[_Item] = []

    def append(self, item: _Item) -> None:
        """Adds an item at the end."""
        self._pending.append(item)
        if len(self._pending) == _ITEMS_AT_A_TIME:
            self._flush()

    def __iter__(self) -> Iterator[_Item]:
        self._flush()
        end = self._file.seek(0, os.SEEK_END)
        position = 0
        while position < end:
            self._file.seek(position)  # another iterator may have moved it
            items = pickle.load(self._file)
            position = self._file.tell()
            yield from items

    def _flush(self) -> None:
        if self._pending:
            self._file.seek(0, os.SEEK_END)
            pickle.dump(self._pending, self._file, pickle.HIGHEST_PROTOCOL)
            self._pending = []
