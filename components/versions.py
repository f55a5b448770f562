"""Versions of a model in a directory, as TensorFlow Serving reads them.

A version is copied under a temporary name, completed by a manifest, and renamed. On an
object store a rename copies object by object, so a version counts only if no temporary
directory lies beside it and all files of its manifest are there.
"""

from __future__ import annotations

import hashlib
import json
import logging
import os
import re
import time
from collections.abc import Iterator
from typing import Any

# Not `tfx.v1`, which takes seconds to import: the command line reads versions, too.
from tfx.dsl.io import fileio
from tfx.utils import io_utils

logger = logging.getLogger(__name__)

MANIFEST_FILE = "manifest.json"

# Written by `tf.saved_model.save`, with an identifier that no two saves share.
_FINGERPRINT_FILE = "fingerprint.pb"
_INCOMPLETE = re.compile(r"\.([0-9]+)\.incomplete")
_CHUNK_BYTES = 1 << 20
_ABANDONED_SECONDS = 3600
_MILLISECONDS = 1000


class VersionError(Exception):
    """A version whose files are not those that were pushed."""


def list_versions(directory: str) -> Iterator[int]:
    """Yields the complete versions that a directory holds, the newest first.

    Each is checked when it is taken: on an object store that costs a request a file.
    """
    names = _list_names(directory)
    numbers = {int(name): name for name in names if _is_version(name)}
    for number, name in sorted(numbers.items(), reverse=True):
        if _is_complete(directory, name, names):
            yield number


def choose_version(directory: str, model: str) -> int:
    """Returns the version to push a model as.

    Args:
      directory: Holds the versions.
      model: A SavedModel.

    Returns:
      The newest version where that is a copy of the model. Else a version above all
      others, the time in milliseconds where that is: not in seconds, for a version
      that was deleted must not be chosen again at once.
    """
    newest = next(list_versions(directory), 0)
    if newest and is_same_model(model, os.path.join(directory, str(newest))):
        return newest
    # Incomplete versions count, too: their numbers are taken.
    highest = max((int(n) for n in _list_names(directory) if _is_version(n)), default=0)
    return max(int(time.time() * _MILLISECONDS), highest + 1)


def newest_other_version(directory: str, model: str) -> int | None:
    """Returns the newest version that is no copy of a model, or None."""
    for version in list_versions(directory):
        if not is_same_model(model, os.path.join(directory, str(version))):
            return version
    return None


def is_same_model(model: str, other: str) -> bool:
    """Tells whether two directories hold copies of one SavedModel."""
    paths = [os.path.join(path, _FINGERPRINT_FILE) for path in (model, other)]
    if not all(fileio.exists(path) for path in paths):
        return False
    first, second = (fileio.open(path, "rb").read() for path in paths)
    return first == second


def push(model: str, directory: str, version: int) -> None:
    """Copies a model into a directory as a version, whole or not at all.

    Directories that killed pushes left behind are deleted first. Does nothing if the
    version is complete already.

    Args:
      model: Directory of a SavedModel.
      directory: Holds the versions.
      version: The number to push the model as.

    Raises:
      VersionError: The copy differs from the model. No version appears.
    """
    _delete_leftovers(directory, version)
    destination = os.path.join(directory, str(version))
    names = _list_names(directory)
    if str(version) in names:
        if _is_complete(directory, str(version), names):
            return
        fileio.rmtree(destination)
    incomplete = os.path.join(directory, _incomplete_name(str(version)))
    manifest = _describe_files(model)
    io_utils.copy_dir(model, incomplete)
    damage = _find_damage(incomplete, manifest)
    if damage:
        raise VersionError(
            f"the copy {incomplete} of the model {model} is damaged: {damage}. Check "
            "the storage and run the pipeline again"
        )
    path = os.path.join(incomplete, MANIFEST_FILE)
    io_utils.write_string_file(path, json.dumps({"files": manifest}, indent=1))
    fileio.rename(incomplete, destination)


def copy(version: str, destination: str) -> None:
    """Copies a version and compares the copy with the version's manifest.

    Args:
      version: Directory of the version.
      destination: A new directory.

    Raises:
      VersionError: A file differs in its SHA-256 from what was pushed.
    """
    io_utils.copy_dir(version, destination)
    damage = _find_damage(destination, _read_manifest(destination))
    if damage:
        raise VersionError(
            f"version {version} is damaged: {damage}. Restore the file, or delete the "
            "version so that the one before it is used"
        )


def _delete_leftovers(directory: str, version: int) -> None:
    """Deletes what killed pushes of this version and of earlier ones left behind."""
    for name in _list_names(directory):
        match = _INCOMPLETE.fullmatch(name)
        if match is None or not _is_abandoned(int(match[1]), directory, version):
            continue
        # The version first: without the other beside it, it would count as complete.
        for leftover in (match[1], name):
            path = os.path.join(directory, leftover)
            if fileio.exists(path):
                fileio.rmtree(path)


def _is_abandoned(number: int, directory: str, version: int) -> bool:
    """Tells whether the push of a number ended without its version.

    On this machine one run at a time pushes to a directory. On a cluster others may;
    the number is the time in milliseconds at which a push started.
    """
    if number == version or "://" not in directory:
        return number <= version
    return number < (time.time() - _ABANDONED_SECONDS) * _MILLISECONDS


def _describe_files(directory: str) -> dict[str, dict[str, Any]]:
    """Returns `size` in bytes and `sha256` of all files, by path below a directory."""
    files = {}
    for folder, _, names in fileio.walk(directory):
        for name in names:
            path = os.path.join(folder, name)
            relative = os.path.relpath(path, directory)
            if relative != MANIFEST_FILE:
                files[relative] = {"size": _size(path), "sha256": _hash(path)}
    return files


def _hash(path: str) -> str:
    digest = hashlib.sha256()
    with fileio.open(path, "rb") as file:
        while chunk := file.read(_CHUNK_BYTES):
            digest.update(chunk)
    return digest.hexdigest()


def _size(path: str) -> int:
    stat = fileio.stat(path)  # of TensorFlow for remote files, else of the system
    return stat.length if hasattr(stat, "length") else stat.st_size


def _read_manifest(directory: str) -> dict[str, dict[str, Any]]:
    """Returns the manifest's files; empty for versions of before there was one."""
    path = os.path.join(directory, MANIFEST_FILE)
    if not fileio.exists(path):
        return {}
    return json.loads(io_utils.read_string_file(path))["files"]


def _find_damage(directory: str, manifest: dict[str, dict[str, Any]]) -> str:
    """Returns which file differs from a manifest, and how; empty if none does."""
    for name, expected in manifest.items():
        path = os.path.join(directory, name)
        if not fileio.exists(path):
            return f"{name} is missing"
        if _hash(path) != expected["sha256"]:
            return f"{name} differs from the file that was pushed"
    return ""


def _is_complete(directory: str, name: str, names: set[str]) -> bool:
    """Tells whether a version is complete; logs which of its files is missing.

    Args:
      directory: Holds the versions.
      name: The version's name.
      names: All names in the directory.
    """
    if _incomplete_name(name) in names:
        return False
    path = os.path.join(directory, name)
    problem = _find_missing(path)
    if problem:
        logger.warning("%s is not complete and is skipped: %s", path, problem)
    return not problem


def _find_missing(directory: str) -> str:
    """Returns which file of a manifest is not there in its size; empty if all are."""
    try:
        manifest = _read_manifest(directory)
        sizes = {name: int(row["size"]) for name, row in manifest.items()}
    except (AttributeError, KeyError, TypeError, ValueError) as error:
        return f"{MANIFEST_FILE} cannot be read ({error})"
    for name, size in sizes.items():
        path = os.path.join(directory, name)
        if not fileio.exists(path):
            return f"{name} is missing"
        if _size(path) != size:
            return f"{name} has {_size(path)} bytes, not {size}"
    return ""


def _is_version(name: str) -> bool:
    return name.isascii() and name.isdigit()


def _incomplete_name(version: str) -> str:
    return f".{version}.incomplete"


def _list_names(directory: str) -> set[str]:
    if not fileio.isdir(directory):
        return set()
    return {name.rstrip("/") for name in fileio.listdir(directory)}
