"""Versions of a model in a directory, in the layout of TensorFlow Serving.

A push copies the model under a temporary name, adds a manifest, and renames. Object
stores rename object by object, so a version counts only if no temporary directory is
left beside it and all files of its manifest exist.
"""

from __future__ import annotations

import json
import logging
import re
import time
from collections.abc import Iterator
from typing import Any

# Not `tfx.v1`, which takes seconds to import: the command line lists versions, too.
from tfx.dsl.io import fileio
from tfx.utils import io_utils

from modules import files, fingerprint, uris
from modules.export import model_digest

logger = logging.getLogger(__name__)

MANIFEST_FILE = "manifest.json"
# Directory of the versions that were rolled back, beside those that are served.
WITHDRAWN = ".withdrawn"
# A predict request with rows for people to try the model with.
EXAMPLES_FILE = "assets.extra/examples.json"

_INCOMPLETE = re.compile(r"\.([0-9]+)\.incomplete")
_ABANDONED_SECONDS = 3600
_MILLISECONDS = 1000


class VersionError(Exception):
    """The files of a version differ from those that were pushed."""


def list_versions(directory: str) -> Iterator[int]:
    """Yields the complete versions in a directory, the newest first.

    Versions are checked lazily: on an object store a check costs a request per file.
    """
    names = _list_names(directory)
    for name in sorted(filter(_is_version, names), key=int, reverse=True):
        if _is_complete(directory, name, names):
            yield int(name)


def find_newest(directory: str, *, excluded: str = "") -> str:
    """Returns the newest complete version; empty if there is none.

    Args:
      directory: Contains the versions.
      excluded: `model_digest.identity` of a model, whose copies are skipped; empty
        skips none.
    """
    for version in list_versions(directory):
        path = uris.join(directory, str(version))
        if not excluded or model_digest.identity(path) != excluded:
            return str(version)
    return ""


def choose_version(directory: str, model: str) -> int:
    """Returns the version to push a model as.

    Args:
      directory: Contains the versions.
      model: Directory of a SavedModel.

    Returns:
      The newest version if it is a copy of the model. Otherwise the time in
      milliseconds, or one more than the highest version if that is greater. Seconds
      are too coarse: they could yield a version again that was just deleted.
    """
    newest = find_newest(directory)
    if newest and is_same_model(model, uris.join(directory, newest)):
        return int(newest)
    # The numbers of incomplete versions are taken, too.
    highest = max(map(int, filter(_is_version, _list_names(directory))), default=0)
    return max(int(time.time() * _MILLISECONDS), highest + 1)


def find_withdrawn(directory: str, model: str) -> str:
    """Returns the version of a model that was rolled back; empty if there is none.

    Args:
      directory: Contains the versions. If the newest is a copy of the model, it is
        served, and not rolled back.
      model: Directory of a SavedModel.
    """
    newest = find_newest(directory)
    if newest and is_same_model(model, uris.join(directory, newest)):
        return ""
    withdrawn = uris.join(directory, WITHDRAWN)
    for version in list_versions(withdrawn):
        if is_same_model(model, uris.join(withdrawn, str(version))):
            return str(version)
    return ""


def is_same_model(model: str, other: str) -> bool:
    """Returns whether two directories contain copies of one SavedModel."""
    identity = model_digest.identity(model)
    return bool(identity) and identity == model_digest.identity(other)


def push(
    model: str, directory: str, version: int, *, examples: str | None = None
) -> None:
    """Copies a model into a directory as a version, completely or not at all.

    Leftovers of killed pushes are deleted first. Does nothing if the version is already
    complete.

    Args:
      model: Directory of a SavedModel.
      directory: Contains the versions.
      version: The number of the new version.
      examples: Content of `EXAMPLES_FILE`; None for a version without it.

    Raises:
      VersionError: The copy differs from the model. No version appears.
    """
    _delete_leftovers(directory, version)
    destination = uris.join(directory, str(version))
    names = _list_names(directory)
    if str(version) in names:
        if _is_complete(directory, str(version), names):
            return
        fileio.rmtree(destination)
    incomplete = uris.join(directory, _incomplete_name(str(version)))
    manifest = _describe_files(model)
    files.copy_directory(model, incomplete)
    damage = _find_damage(incomplete, manifest, compare_hashes=True)
    if damage:
        raise VersionError(
            f"the copy {incomplete} of the model {model} is damaged: {damage}. Check "
            "the storage and run the pipeline again"
        )
    if examples is not None:
        path = uris.join(incomplete, EXAMPLES_FILE)
        files.write(path, examples)
        manifest[EXAMPLES_FILE] = _describe_file(path)
    path = uris.join(incomplete, MANIFEST_FILE)
    files.write(path, json.dumps({"files": manifest}, indent=1))
    # Nothing is at the destination. On an object store, TensorFlow would find what was
    # deleted there in the last 5 seconds in its cache.
    fileio.rename(incomplete, destination, overwrite=True)


def copy(version: str, destination: str) -> None:
    """Copies a version and verifies the copy against the version's manifest.

    Args:
      version: Directory of the version.
      destination: A new directory.

    Raises:
      VersionError: A file is missing or differs from what was pushed.
    """
    files.copy_directory(version, destination)
    damage = _find_damage(destination, _read_manifest(destination), compare_hashes=True)
    if damage:
        raise VersionError(
            f"version {version} is damaged: {damage}. Restore the file, or delete the "
            "version so that the previous one is used"
        )


def _delete_leftovers(directory: str, version: int) -> None:
    """Deletes the leftovers of killed pushes of this and of earlier versions."""
    for name in _list_names(directory):
        match = _INCOMPLETE.fullmatch(name)
        if match is None or not _is_abandoned(int(match[1]), directory, version):
            continue
        # The version first: without its temporary directory it would look complete.
        for leftover in (match[1], name):
            path = uris.join(directory, leftover)
            if fileio.exists(path):
                fileio.rmtree(path)


def _is_abandoned(number: int, directory: str, version: int) -> bool:
    """Returns whether the push of a number ended without a version.

    On a local disk only one run at a time pushes to a directory. To remote storage
    others may be pushing; the number is the start time of a push in milliseconds.
    """
    if number == version or uris.is_local(directory):
        return number <= version
    return number < (time.time() - _ABANDONED_SECONDS) * _MILLISECONDS


def _describe_files(directory: str) -> dict[str, dict[str, Any]]:
    """Returns the manifest: `size` in bytes and `sha256` by relative path."""
    return {
        name: _describe_file(uris.join(directory, name))
        for name in files.list_files(directory)
        if name != MANIFEST_FILE
    }


def _describe_file(path: str) -> dict[str, Any]:
    return {"size": _size(path), "sha256": fingerprint.of_file(path)}


def _size(path: str) -> int:
    stat = fileio.stat(path)  # TensorFlow's for remote files, else os.stat_result
    return stat.length if hasattr(stat, "length") else stat.st_size


def _read_manifest(directory: str) -> dict[str, dict[str, Any]]:
    """Returns the manifest; empty for versions of releases that wrote none."""
    path = uris.join(directory, MANIFEST_FILE)
    if not fileio.exists(path):
        return {}
    return json.loads(io_utils.read_string_file(path))["files"]


def _find_damage(
    directory: str, manifest: dict[str, dict[str, Any]], *, compare_hashes: bool
) -> str:
    """Returns how a file differs from the manifest; empty if none does."""
    for name, expected in manifest.items():
        path, size = uris.join(directory, name), int(expected["size"])
        if not fileio.exists(path):
            return f"{name} is missing"
        if _size(path) != size:
            return f"{name} has {_size(path)} bytes, not {size}"
        if compare_hashes and fingerprint.of_file(path) != expected["sha256"]:
            return f"{name} differs from the file that was pushed"
    return ""


def _is_complete(directory: str, name: str, names: set[str]) -> bool:
    """Returns whether a version is complete; logs what is missing.

    Args:
      directory: Contains the versions.
      name: The version's name.
      names: All names in the directory.
    """
    if _incomplete_name(name) in names:
        return False
    path = uris.join(directory, name)
    try:
        problem = _find_damage(path, _read_manifest(path), compare_hashes=False)
    except (AttributeError, KeyError, TypeError, ValueError) as error:
        problem = f"{MANIFEST_FILE} cannot be read ({error})"
    if problem:
        logger.warning("%s is incomplete and is skipped: %s", path, problem)
    return not problem


def _is_version(name: str) -> bool:
    return name.isascii() and name.isdigit()


def _incomplete_name(version: str) -> str:
    return f".{version}.incomplete"


def _list_names(directory: str) -> set[str]:
    if not fileio.isdir(directory):
        return set()
    return {name.rstrip("/") for name in fileio.listdir(directory)}
