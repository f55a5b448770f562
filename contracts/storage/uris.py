"""Locations of files and artifacts, on this machine or in an object store."""

from __future__ import annotations

import posixpath
import re

from contracts.errors import UsageError

# The object store that TensorFlow and Beam have file systems for.
OBJECT_STORE = "gs://"
_PATTERN = re.compile(r"[*?\[\\]")


def join(directory: str, *parts: str) -> str:
    """Joins a directory, local or remote, and relative paths below it.

    Object stores do not normalize paths: `a/./b` and `a//b` are other objects than
    `a/b`.

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


def refuse_scheme(name: str, path: str) -> None:
    """Refuses a remote path that TensorFlow and Beam cannot read, such as `s3://...`.

    Args:
      name: The setting or argument that named the path.
      path: The path, local or remote.

    Raises:
      UsageError: It is neither local nor in the object store.
    """
    if not is_local(path) and not path.startswith(OBJECT_STORE):
        raise UsageError(
            name,
            path,
            f"a path on this machine, or {OBJECT_STORE}BUCKET/FOLDER",
            "copy the files there",
            name="E-local-path-required",
        )


def refuse_pattern(name: str, path: str) -> None:
    """Refuses a path that TensorFlow, TFX and Beam would match as a file pattern.

    It also refuses what `refuse_scheme` refuses.

    No character can be escaped: TensorFlow's `RestoreV2` opens the path that it
    matches, and Beam's `FileSystem.translate_pattern` has no quotes.

    Args:
      name: The setting or argument that named the path.
      path: The path, local or remote.

    Raises:
      UsageError: It has a special character of patterns, or another scheme.
    """
    refuse_scheme(name, path)
    special = "".join(sorted(set(_PATTERN.findall(path))))
    if special:
        raise UsageError(
            name,
            f"TensorFlow and Beam read {' '.join(special)} in {path} as a file pattern",
            advice="rename the directory, or choose another",
            name="E-path-pattern",
        )
