"""Finds the complete versions of a model in a directory, without TensorFlow."""

from __future__ import annotations

import contextlib
import dataclasses
import json
import logging
from collections.abc import Collection
from pathlib import Path

from serving.errors import SettingsError

logger = logging.getLogger(__name__)

_GRAPH = "saved_model.pb"
_MANIFEST = "manifest.json"
# The version of a SavedModel whose directory is not numbered.
_FIRST_VERSION = 1


@dataclasses.dataclass(frozen=True)
class Source:
    """The directory of a model.

    Attributes:
      name: The model's name in requests.
      directory: The SavedModel, the directory of its versions, or a symbolic link to
        one of them, which may change between scans.
    """

    name: str
    directory: Path
    # Versions of SavedModels in directories without a number, in the order they appear.
    _numbers: dict[Path, int] = dataclasses.field(default_factory=dict, compare=False)
    # Reasons why versions are incomplete, to log each one once.
    _problems: dict[Path, str] = dataclasses.field(default_factory=dict, compare=False)

    def scan(self, loaded: Collection[int] = ()) -> dict[int, Path]:
        """Returns the directories of the complete SavedModels, by version.

        Args:
          loaded: Versions whose manifest is not checked again.
        """
        path = self.directory.resolve()
        if holds_model(path):
            versions = {self._number(path): path}
        else:
            versions = list_versions(path)
        return {
            version: path
            for version, path in versions.items()
            if self._is_complete(version, path, is_loaded=version in loaded)
        }

    def _number(self, path: Path) -> int:
        if _is_version(path.name):
            return int(path.name)
        return self._numbers.setdefault(path, _FIRST_VERSION + len(self._numbers))

    def _is_complete(self, version: int, path: Path, *, is_loaded: bool) -> bool:
        try:
            if not holds_model(path):
                return False
            problem = None if is_loaded else find_problem(path)
        except OSError as error:  # other versions can still be loaded
            problem = f"{error.filename}: {error.strerror}"
        if problem is None:
            self._problems.pop(path, None)
        elif self._problems.get(path) != problem:
            self._problems[path] = problem
            logger.warning(
                "version %d is incomplete and not loaded yet: %s", version, problem
            )
        return problem is None


def find_model(directory: Path, name: str | None = None) -> Source:
    """Finds a SavedModel, or a directory of its versions.

    Args:
      directory: The directory, or a symbolic link, which is followed at each scan.
      name: The model's name; None for the directory's name, or the parent's name if
        the directory is a numbered version.

    Raises:
      SettingsError: The directory has no complete SavedModel.
    """
    path = directory.resolve()
    if holds_model(path) and _is_version(path.name):
        default = path.parent.name
    else:
        default = path.name
    source = Source(name or default, directory.absolute())
    if not source.scan():
        raise SettingsError(
            f"--model {directory} holds no complete SavedModel, itself or in a "
            "numbered directory; give the directory that a run pushes to, as "
            "output/sample/serving/sample"
        )
    return source


def find_problem(path: Path) -> str | None:
    """Returns why a version is incomplete; None if it is complete.

    During a push `.VERSION.incomplete` exists beside the version, and `manifest.json`
    is written last. A version without a manifest counts as complete, because it may
    have been copied by hand.

    Raises:
      OSError: The manifest cannot be read.
    """
    marker = path.parent / f".{path.name}.incomplete"
    if marker.exists():
        return f"{marker} is still there"
    manifest = path / _MANIFEST
    try:
        files = json.loads(manifest.read_bytes())["files"]
        sizes = {name: file["size"] for name, file in files.items()}
    except FileNotFoundError:
        return None
    except (ValueError, KeyError, TypeError, AttributeError) as error:
        return f"{manifest} lists no files with sizes ({type(error).__name__})"
    for name, size in sizes.items():
        try:
            actual = (path / name).stat().st_size
        except OSError as error:
            return f"{path / name} of {_MANIFEST}: {error.strerror}"
        if actual != size:
            return f"{path / name} has {actual} bytes, {_MANIFEST} says {size}"
    return None


def list_versions(directory: Path) -> dict[int, Path]:
    """Returns the numbered directories; none if the directory does not exist."""
    if not directory.is_dir():
        return {}
    return {
        int(path.name): path for path in directory.iterdir() if _is_version(path.name)
    }


def holds_model(path: Path) -> bool:
    """Returns whether a directory is a SavedModel."""
    return (path / _GRAPH).is_file()


def fingerprint(directory: Path) -> frozenset[tuple[str, int, int]]:
    """Returns path, size in bytes and modification time in ns of all files."""
    files = set()
    for path in directory.rglob("*"):
        with contextlib.suppress(OSError):  # loading the version logs the error
            if path.is_file():
                stat = path.stat()
                files.add((str(path), stat.st_size, stat.st_mtime_ns))
    return frozenset(files)


def _is_version(name: str) -> bool:
    return name.isascii() and name.isdigit()
