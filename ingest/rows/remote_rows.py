"""Remote files of rows; a package that can read them registers how."""

from __future__ import annotations

from typing import IO, Protocol

from contracts.storage import files


class RemoteRows(Protocol):
    """Files of rows that are not on this machine."""

    def match(self, source: str) -> tuple[list[str], bool]:
        """Returns the sorted paths of a source, and whether it is a directory."""

    def open_file(self, path: str) -> IO[bytes]:
        """Opens a file without unpacking it."""


_registered: list[RemoteRows] = []


def register(remote: RemoteRows) -> None:
    """Sets how remote files are found and opened; `ingest.remote` registers Beam."""
    _registered[:] = [remote]


def match(source: str) -> tuple[list[str], bool]:
    """Returns the sorted paths of a remote source, and whether it is a directory."""
    return _remote(source).match(source)


def open_file(path: str) -> IO[bytes]:
    """Opens a remote file without unpacking it."""
    return _remote(path).open_file(path)


def _remote(path: str) -> RemoteRows:
    if not _registered:
        raise files.unreachable(path)
    return _registered[0]
