"""Folders that Hugging Face `datasets` saved to disk, and the names of their classes.

The layout is that of `DatasetDict.save_to_disk` and `Dataset.save_to_disk`.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from contracts.errors import UsageError
from contracts.settings.data import FileFormat
from ingest.rows import arrow_readers
from ingest.rows.formats import ARROW, PARQUET

_SPLITS_FILE = "dataset_dict.json"
_STATE_FILE = "state.json"


def find_files(directory: Path) -> dict[str | None, list[str]] | None:
    """Returns the Arrow files of each split in their order.

    Args:
      directory: A folder.

    Returns:
      The files by the name of the split, or those of None if the folder is a single
      `Dataset`; None if the folder is neither.

    Raises:
      UsageError: A data set has no state, or selects some rows of its files.
    """
    names = _read(directory / _SPLITS_FILE).get("splits")
    if isinstance(names, list):
        return {name: _list_files(directory / name) for name in names}
    return {None: _list_files(directory)} if _is_data_set(directory) else None


def class_names(path: str, file_format: FileFormat, column: str) -> list[str] | None:
    """Returns the names of a `ClassLabel` column, whose values are their indices.

    Args:
      path: A Parquet or Arrow file; others have no class names.
      file_format: Its format.
      column: The column.
    """
    if file_format not in (PARQUET, ARROW):
        return None
    try:
        with open(path, "rb") as file:
            schema = arrow_readers.read_schema(file, file_format)
        metadata: dict[str, Any] = json.loads((schema.metadata or {})[b"huggingface"])
        feature = metadata["info"]["features"][column]
        # Of several labels, it is a `Sequence` or a `List` of a `ClassLabel`.
        return list(feature.get("feature", feature)["names"])
    except (KeyError, TypeError, AttributeError, ValueError, FileNotFoundError):
        # No such metadata, or a damaged or deleted file, which the reader refuses.
        return None


def _read(path: Path) -> dict[str, Any]:
    """Returns the object of a JSON file; an empty one if the file has no object."""
    try:
        content = json.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return {}
    return content if isinstance(content, dict) else {}


def _is_data_set(directory: Path) -> bool:
    return "_data_files" in _read(directory / _STATE_FILE)


def _list_files(directory: Path) -> list[str]:
    state = _read(directory / _STATE_FILE)
    if not _is_data_set(directory):
        raise UsageError(
            str(directory),
            f"it has no {_STATE_FILE} of a data set, but "
            f"{directory.parent / _SPLITS_FILE} names it",
            advice="save it again with save_to_disk",
            name="E-file-damaged",
        )
    if state.get("_indices_data_files") or state.get("_indices_files"):
        raise UsageError(
            str(directory),
            "it selects some rows of its files",
            advice="save it again after dataset.flatten_indices()",
            name="E-file-damaged",
        )
    return [str(directory / file["filename"]) for file in state["_data_files"]]
