"""The directory of a model, and which of its versions can be loaded."""

from __future__ import annotations

import contextlib
import dataclasses
import logging
import re
from collections.abc import Collection
from pathlib import Path

from contracts.errors import SettingError, UsageError
from contracts.storage import uris
from contracts.versions import served_versions
from contracts.versions.exported_model import GRAPH_FILE, PORTABLE_FILE

logger = logging.getLogger(__name__)

# What a model is called, and where to find one.
_KINDS = {
    GRAPH_FILE: (
        "SavedModel",
        "give the directory that a run pushes to, such as output/sample/serving/sample",
    ),
    PORTABLE_FILE: ("exported model", served_versions.PORTABLE_ADVICE),
}
NAME = r"[^/:?#\x00-\x1f\x7f\ud800-\udfff]+"
"""Pattern of a model's name, or of a label, in the decoded path of a URL."""


@dataclasses.dataclass(frozen=True)
class Source:
    """The directory of a model.

    Attributes:
      name: The model's name in requests.
      directory: The model, the directory of its versions, or a symbolic link to one of
        them, which may change between scans.
      main_file: See `served_versions.is_model`.
    """

    name: str
    directory: Path
    main_file: str = GRAPH_FILE
    # Versions of models in directories without a number: 1, 2, ... as they appear.
    _numbers: dict[Path, int] = dataclasses.field(default_factory=dict, compare=False)
    # Reasons why versions are incomplete, to log each one once.
    _problems: dict[Path, str] = dataclasses.field(default_factory=dict, compare=False)

    def scan(self, loaded: Collection[int] = ()) -> dict[int, Path]:
        """Returns the directories of the complete versions, by number.

        Args:
          loaded: Versions whose manifest is not checked again.
        """
        path = self.directory.resolve()
        if served_versions.is_model(str(path), self.main_file):
            if served_versions.is_version(path.name):
                number = int(path.name)
            else:
                number = self._numbers.setdefault(path, len(self._numbers) + 1)
            versions = [(number, path)]
        else:
            names = served_versions.list_versions(str(path))
            versions = [(int(name), path / name) for name in names]
        complete: dict[int, Path] = {}
        for version, path in versions:
            if self._is_complete(path, is_loaded=version in loaded):
                complete.setdefault(version, path)
        return complete

    def _is_complete(self, path: Path, *, is_loaded: bool) -> bool:
        with contextlib.suppress(OSError):  # `find_problem` describes it
            if is_loaded and served_versions.is_model(str(path), self.main_file):
                return True
        try:
            problem = served_versions.find_problem(str(path), self.main_file)
        except ValueError as error:  # a manifest of another format
            problem = str(error)
        if not problem:
            self._problems.pop(path, None)
        elif self._problems.get(path) != problem:
            self._problems[path] = problem
            logger.warning("%s is incomplete and not loaded yet: %s", path, problem)
        return not problem


def check_local(model: str) -> None:
    """Refuses a path of remote storage, which the server cannot read."""
    if not uris.is_local(model):
        raise UsageError(
            "model",
            model,
            "a directory of this machine",
            "mount the bucket and name the model's folder in it, or copy the model",
            name="E-local-path-required",
        )


def find_model(
    directory: Path, name: str | None = None, main_file: str = GRAPH_FILE
) -> Source:
    """Finds a model, or a directory of its versions.

    Args:
      directory: The directory, or a symbolic link, which is followed at each scan.
      name: The model's name; None for the directory's name, or the parent's name if
        the directory is a numbered version.
      main_file: See `served_versions.is_model`.

    Raises:
      UsageError: The directory has no complete model, or cannot be read, or no URL can
        reach the name.
    """
    path = directory.resolve()
    is_version = served_versions.is_version(path.name)
    try:
        if name is None:
            is_one = is_version and served_versions.is_model(str(path), main_file)
            name = (path.parent if is_one else path).name
        check_name(name, "name")
        source = Source(name, directory.absolute(), main_file)
        served_versions.refuse_other_kind(str(directory), main_file)
        complete = source.scan()
        if main_file == GRAPH_FILE:
            _refuse_broken_graphs(complete.values())
    except OSError as error:
        raise UsageError(
            "model",
            f"{error.filename or directory}: {error.strerror}",
            advice="correct the permissions, or run the command as another user",
            name="E-storage-failed",
        ) from error
    if not complete:
        kind, advice = _KINDS[main_file]
        problem = f" has no complete {kind}" if path.is_dir() else ": no such directory"
        raise UsageError(
            "model",
            f"{directory}{problem}",
            advice=advice,
            name="E-model-not-found",
        )
    return source


def _refuse_broken_graphs(versions: Collection[Path]) -> None:
    """Refuses versions of which none can be loaded; the server would wait for another.

    A version with a manifest is compared with it when it is loaded.
    """
    problems = {
        path: served_versions.find_broken_graph(str(path))
        for path in versions
        if not (path / served_versions.MANIFEST_FILE).exists()
    }
    if versions and len(problems) == len(versions) and all(problems.values()):
        newest = next(iter(problems))
        raise UsageError(
            "model",
            f"{newest}: {problems[newest]}",
            advice="copy the whole directory again, or give another model",
            name="E-model-damaged",
        )


def check_name(name: str, setting: str) -> None:
    """Checks that the path of a URL can have a name.

    Args:
      name: A model's name, or a label.
      setting: The argument that has it, for the error.

    Raises:
      UsageError: No URL can reach the name. Clients remove `.` and `..` from a path.
    """
    if name in (".", "..") or not re.fullmatch(NAME, name):
        raise SettingError(
            setting,
            f"no URL can reach {name!r}",
            "a name that is not empty, . or .., and has no /, :, ?, # or control "
            "character",
            f"choose another `{setting}`",
        )


def fingerprint(directory: Path) -> frozenset[tuple[str, int, int]]:
    """Returns path, size in bytes and modification time in ns of all files."""
    files = set()
    for path in directory.rglob("*"):
        with contextlib.suppress(OSError):  # loading the version logs the error
            if path.is_file():
                stat = path.stat()
                files.add((str(path), stat.st_size, stat.st_mtime_ns))
    return frozenset(files)
