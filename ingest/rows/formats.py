"""The formats of files, by the extensions of their names."""

from __future__ import annotations

import os
import re
from typing import get_args

from contracts.settings.data import FileFormat

FOLDERS: FileFormat = "folders"  # a layout of text files, which have no format
FORMATS: tuple[FileFormat, ...] = tuple(f for f in get_args(FileFormat) if f != FOLDERS)
CSV, TSV, JSONL, PARQUET, ARROW, TFRECORD = FORMATS
DELIMITED = (CSV, TSV)
SPREADSHEETS = (".xlsx", ".xls", ".ods")  # not read; ends of names

_SUFFIXES = {
    CSV: re.compile(r"\.csv(\.gz)?$", re.IGNORECASE),
    TSV: re.compile(r"\.tsv(\.gz)?$", re.IGNORECASE),
    JSONL: re.compile(r"\.(jsonl|ndjson|json)(\.gz)?$", re.IGNORECASE),
    PARQUET: re.compile(r"\.parquet$", re.IGNORECASE),
    ARROW: re.compile(r"\.arrow$", re.IGNORECASE),
    # TFX names its own `data_tfrecord-00000-of-00001.gz`.
    TFRECORD: re.compile(r"[._]tf_?record"),
}


def format_of(path: str) -> FileFormat | None:
    """Returns the format that a file's name shows; None for any other name."""
    name = os.path.basename(path)
    formats = (f for f, suffix in _SUFFIXES.items() if suffix.search(name))
    return next(formats, None)


def stem_of(path: str) -> str:
    """Returns the name of a file without the extensions of its format."""
    name = os.path.basename(path)
    file_format = format_of(path)
    return _SUFFIXES[file_format].split(name)[0] if file_format else name
