"""Files of JSON lines that are only appended to."""

from __future__ import annotations

import contextlib
import json
import logging
import os
from collections.abc import Iterator
from pathlib import Path
from typing import TypeVar

import pydantic

from contracts.storage import files

_Record = TypeVar("_Record", bound=pydantic.BaseModel)

logger = logging.getLogger(__name__)


def append(path: Path, record: pydantic.BaseModel) -> None:
    """Appends a record; a part of it that an error left is removed again.

    Raises:
      OSError: The file cannot be written.
    """
    content = files.with_format(record.model_dump(mode="json"))
    line = json.dumps(content).encode() + b"\n"
    # Without a buffer, which would write the line later, after an error.
    with open(path, "ab+", buffering=0) as file:
        if size := file.tell():
            file.seek(-1, os.SEEK_END)
            if file.read() != b"\n":  # the last line was not written whole
                line = b"\n" + line
        try:
            while line:  # a full disk takes a part first
                line = line[file.write(line) :]
            os.fsync(file.fileno())
        except OSError:
            # The user is told that nothing was recorded, so remove what was.
            with contextlib.suppress(OSError):
                file.truncate(size)
            raise


def read(path: Path, model: type[_Record]) -> Iterator[_Record]:
    """Yields the records, the oldest first; logs the lines that are not records.

    Raises:
      FormatError: A record has a format that this release does not know.
      OSError: The file cannot be read.
    """
    if not path.is_file():
        return
    for number, line in enumerate(path.read_bytes().splitlines(), start=1):
        try:
            yield model.model_validate(files.parse_record(line, path))
        except files.FormatError:
            raise
        except ValueError:  # its writer was killed, or the disk was full
            logger.warning(
                "%s:%d is not a record and is skipped; delete the line", path, number
            )
