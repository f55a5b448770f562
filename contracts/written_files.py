"""The files of a directory as they were written, for those who reuse the directory.

A JSON file, the record, has their names and sizes and, if the directory asks for it,
their SHA-256. Otherwise contents are not read. Hidden files do not count.
"""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path

import pydantic

from contracts import fingerprint
from contracts.storage import files

RECORD = ".files.json"


class _Record(pydantic.BaseModel):
    files: dict[str, int]
    sha256: dict[str, str] = {}


def record(
    directory: Path, path: Path | None = None, *, with_contents: bool = False
) -> None:
    """Records the files of a complete directory.

    Args:
      directory: The directory.
      path: The record; None is `.files.json` in the directory.
      with_contents: Whether contents are recorded, and read by each `find_changes`.
    """
    content = _Record(files=_sizes(directory))
    if with_contents:
        content.sha256 = _hashes(directory, content.files)
    files.write_record(
        str(path or directory / RECORD), content.model_dump(exclude_defaults=True)
    )


def find_changes(
    directory: Path, path: Path | None = None, *, counts_additional: bool = True
) -> list[str]:
    """Returns the files that are missing, additional, or of another size or content.

    If the record or a file cannot be read, the record is the only change.

    Args:
      directory: The directory. Without a record, as a killed run leaves it, only the
        empty splits of TFX's artifacts count.
      path: As for `record`.
      counts_additional: Whether additional files are changes.
    """
    path = path or directory / RECORD
    try:
        content = files.read(str(path))
        if content is None:
            splits = directory.glob("Split-*")
            return [split.name for split in splits if not any(split.iterdir())]
        recorded = _Record.model_validate(files.parse_record(content, path))
        before, now = recorded.files, _sizes(directory)
        names = before.keys() | now.keys() if counts_additional else before.keys()
        changes = {name for name in names if before.get(name) != now.get(name)}
        hashes = _hashes(directory, recorded.sha256.keys() - changes)
    except (ValueError, OSError):
        return [path.name]
    changes |= {name for name in hashes if hashes[name] != recorded.sha256[name]}
    return sorted(changes)


def _hashes(directory: Path, names: Iterable[str]) -> dict[str, str]:
    return {name: fingerprint.of_file(directory / name) for name in names}


def _sizes(directory: Path) -> dict[str, int]:
    return {
        path.relative_to(directory).as_posix(): path.stat().st_size
        for path in sorted(directory.rglob("*"))
        if path.is_file() and not path.name.startswith(".")
    }
