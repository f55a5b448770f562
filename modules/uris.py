"""Locations of files and artifacts, on this machine or in an object store."""

from __future__ import annotations

import posixpath


def join(directory: str, *parts: str) -> str:
    """Joins a directory, local or remote, and relative paths below it.

    Object stores do not normalize paths: `a/./b` and `a//b` are other objects than
    `a/b`.

    Args:
      directory: The directory, which may be a bucket, `gs://bucket`.
      *parts: Relative paths with `/`.

    Raises:
      ValueError: The parts lead out of the directory.
    """
    path = posixpath.join("", *parts)
    relative = posixpath.normpath(path)
    if relative.startswith(("../", "/")) or relative == "..":
        raise ValueError(f"{path!r} is not below {directory}")
    base = directory if directory.strip("/") == "" else directory.rstrip("/")
    return base if relative == "." else posixpath.join(base, relative)


def is_local(path: str) -> bool:
    """Returns whether a path is on this machine's disk, not `gs://...` or the like."""
    return "://" not in path
