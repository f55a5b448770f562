"""The files of a directory as they were written, for those who reuse the directory.

A JSON file, the record, has their names and sizes. Contents are not read, and hidden
files do not count.
"""

from __future__ import annotations

import shutil
from collections.abc import Callable
from pathlib import Path

from modules import files

RECORD = ".files.json"
_FILES = "files"


def record(directory: Path, path: Path | None = None) -> None:
    """Records the files of a complete directory.

    Args:
      directory: The directory.
      path: The record; None is `.files.json` in the directory.
    """
    path = path or directory / RECORD
    files.write_record(str(path), {_FILES: _sizes(directory)})


def count_changes(directory: Path, path: Path | None = None) -> int:
    """Returns how many files are missing, additional or of another size.

    Args:
      directory: The directory. Without a record, as a killed run leaves it, only the
        empty splits of TFX's artifacts count.
      path: As for `record`.
    """
    try:
        recorded = files.read_record(str(path or directory / RECORD))
    except ValueError:  # the record itself is damaged
        return 1
    if recorded is None:
        return sum(not any(split.iterdir()) for split in directory.glob("Split-*"))
    before, now = recorded[_FILES], _sizes(directory)
    return sum(before.get(name) != now.get(name) for name in before.keys() | now.keys())


def delete_changed(directory: Path, report: Callable[[str], None]) -> None:
    """Deletes a directory whose files have changed, so that it is written again.

    Args:
      directory: A directory, which need not exist.
      report: Called with a line for the user.
    """
    if count := count_changes(directory):
        report(
            f"{directory} is written again: {count} of its files are missing or have "
            "changed"
        )
        shutil.rmtree(directory)


def _sizes(directory: Path) -> dict[str, int]:
    return {
        path.relative_to(directory).as_posix(): path.stat().st_size
        for path in sorted(directory.rglob("*"))
        if path.is_file() and not path.name.startswith(".")
    }
