"""The files of a directory as they were written, for those who reuse the directory.

A JSON file, the record, has their names and sizes. Contents are not read, and hidden
files do not count.
"""

from __future__ import annotations

from pathlib import Path

import pydantic

from modules import file_format, files

RECORD = ".files.json"


class _Record(pydantic.BaseModel):
    files: dict[str, int]


def record(directory: Path, path: Path | None = None) -> None:
    """Records the files of a complete directory.

    Args:
      directory: The directory.
      path: The record; None is `.files.json` in the directory.
    """
    content = _Record(files=_sizes(directory))
    files.write_record(str(path or directory / RECORD), content.model_dump())


def count_changes(
    directory: Path, path: Path | None = None, *, counts_additional: bool = True
) -> int:
    """Returns how many files are missing, additional or of another size.

    A record or a file that cannot be read counts as one change.

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
            return sum(not any(split.iterdir()) for split in directory.glob("Split-*"))
        before = _Record.model_validate(file_format.parse(content, path)).files
        now = _sizes(directory)
    except (ValueError, OSError):
        return 1
    names = before.keys() | now.keys() if counts_additional else before.keys()
    return sum(before.get(name) != now.get(name) for name in names)


def _sizes(directory: Path) -> dict[str, int]:
    return {
        path.relative_to(directory).as_posix(): path.stat().st_size
        for path in sorted(directory.rglob("*"))
        if path.is_file() and not path.name.startswith(".")
    }
