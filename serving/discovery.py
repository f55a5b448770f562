"""Which versions of a model a directory holds. Knows nothing of TensorFlow."""

from __future__ import annotations

import dataclasses
from pathlib import Path

from pipeline.errors import UsageError

_GRAPHS = ("saved_model.pb", "saved_model.pbtxt")
# Of a SavedModel that is given itself, and not in a directory of versions.
_ONLY_VERSION = 1


@dataclasses.dataclass(frozen=True)
class Source:
    """Where a model's versions come from.

    Attributes:
      name: The model's name in requests.
      directory: The SavedModel, or the directory of its versions.
      only_version: The number of the one SavedModel; None of a directory of versions.
    """

    name: str
    directory: Path
    only_version: int | None = None

    def scan(self) -> dict[int, Path]:
        """Returns the SavedModels that are there now, by version."""
        if self.only_version is not None:
            found = {self.only_version: self.directory}
        else:
            found = list_versions(self.directory)
        return {version: path for version, path in found.items() if holds_model(path)}


def find_model(directory: Path, name: str | None = None) -> Source:
    """Finds a SavedModel, or a directory of its versions.

    Args:
      directory: Where to look.
      name: The model's name; None is the directory's, or of a SavedModel that is a
        numbered version, that of the directory above.

    Raises:
      UsageError: There is none.
    """
    path = directory.resolve()
    if holds_model(path):
        is_version = _is_version(path.name)
        parent = path.parent.name if is_version else path.name
        version = int(path.name) if is_version else _ONLY_VERSION
        return Source(name or parent, path, version)
    source = Source(name or path.name, path)
    if not source.scan():
        raise UsageError(
            f"--model {directory} holds no SavedModel, itself or in a numbered "
            "directory; give the directory that a run pushes to, as "
            "output/sample/serving/sample"
        )
    return source


def list_versions(directory: Path) -> dict[int, Path]:
    """Returns the numbered directories; none where there is no directory."""
    if not directory.is_dir():
        return {}
    return {
        int(path.name): path for path in directory.iterdir() if _is_version(path.name)
    }


def holds_model(path: Path) -> bool:
    """Tells whether a directory is a SavedModel."""
    return any((path / graph).is_file() for graph in _GRAPHS)


def fingerprint(directory: Path) -> frozenset[tuple[str, int, int]]:
    """Returns name, size in bytes and time in nanoseconds of all files below."""
    files = [path for path in directory.rglob("*") if path.is_file()]
    stats = [(str(path), path.stat()) for path in files]
    return frozenset((name, stat.st_size, stat.st_mtime_ns) for name, stat in stats)


def _is_version(name: str) -> bool:
    return name.isascii() and name.isdigit()
