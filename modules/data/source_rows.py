"""The origin of a record in an Examples artifact: a file and the row in it.

ExampleGen shuffles the records but does not change their bytes, so a record is found
again by its hash. A file next to the TFRecords that this project writes from other
formats has the rows of the original source.
"""

from __future__ import annotations

import bisect
import functools
import json
import os
from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from types import TracebackType
from typing import Any

from contracts.storage import files
from modules.data.row_facts import hash_record

# Like Hadoop and Beam, readers of data ignore names that start with "_".
LOCATIONS_FILE = "_locations.jsonl"


class LocationWriter:
    """Writes the origin of the records of a split.

    Consecutive rows of a file take one line. `{"record": 0, "file": "/data/a.csv",
    "row": 2}` means that record `r`, up to that of the next line, is row `2 + r` of the
    file.
    """

    def __init__(self, directory: str | os.PathLike[str]) -> None:
        self._path = Path(directory) / LOCATIONS_FILE
        self._records = 0
        self._next: tuple[str, int] | None = None

    def __enter__(self) -> LocationWriter:
        self._file = self._path.open("w", encoding="utf-8")
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self._file.close()

    def add(self, file: str, row: int) -> None:
        """Adds the location of the next record."""
        if (file, row) != self._next:
            line = {"record": self._records, "file": file, "row": row}
            self._file.write(json.dumps(line, ensure_ascii=False) + "\n")
        self._next = file, row + 1
        self._records += 1


class Locations:
    """The locations that a `LocationWriter` wrote."""

    def __init__(self, lines: list[str]) -> None:
        self._breaks: list[dict[str, Any]] = [json.loads(line) for line in lines]

    def find(self, record: int) -> str:
        """Returns `FILE:ROW` of a record, by its number from 0."""
        index = bisect.bisect_right(self._breaks, record, key=lambda b: b["record"])
        start = self._breaks[index - 1]
        return f"{start['file']}:{start['row'] + record - start['record']}"


def locate(
    source: str, patterns: dict[str, str], records: Iterable[tuple[str, int]]
) -> dict[tuple[str, int], list[str]]:
    """Finds records in the files that ExampleGen read.

    Args:
      source: The directory that the patterns are relative to.
      patterns: File pattern of each split.
      records: Split and `hash_record` of each record, once for each row to find.

    Returns:
      `FILE:ROW` of each row that was found, by split and hash: in the original source,
      or the TFRecord file and the record's number from 1.
    """
    missing: dict[str, Counter[int]] = defaultdict(Counter)
    for split, record in records:
        missing[split][record] += 1
    locations = defaultdict(list)
    for split, counts in missing.items():
        for serialized, location in _read(os.path.join(source, patterns[split])):
            record = hash_record(serialized)
            if counts[record]:
                locations[split, record].append(location())
                counts[record] -= 1
                if not counts.total():
                    break
    return dict(locations)


def _read(pattern: str) -> Iterator[tuple[bytes, Callable[[], str]]]:
    """Yields the records of files, each with a function that returns its location."""
    # Imported here, because writing locations does not need TensorFlow.
    import tensorflow as tf

    try:
        paths = files.list_records([pattern])
    except files.MissingRecordsError:  # deleted since ExampleGen read them
        return
    sidecar = os.path.join(os.path.dirname(paths[0]), LOCATIONS_FILE)
    origins = None
    if tf.io.gfile.exists(sidecar):
        with tf.io.gfile.GFile(sidecar) as lines:
            origins = Locations(list(lines))
    number = 0
    for path in paths:
        compression = "GZIP" if path.endswith(".gz") else ""
        records = tf.data.TFRecordDataset(path, compression).as_numpy_iterator()
        for row, serialized in enumerate(records, start=1):
            if origins is None:
                yield serialized, functools.partial("{}:{}".format, path, row)
            else:
                yield serialized, functools.partial(origins.find, number)
            number += 1
