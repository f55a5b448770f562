"""Reads the files next to the graph of a SavedModel: its task, examples and card."""

from __future__ import annotations

import json
import logging
from pathlib import Path
from typing import Any

from contracts.versions.exported_model import DESCRIPTION_FILE
from contracts.versions.served_versions import (
    CARD_FILE,
    EXAMPLES_FILE,
)
from serving.json_requests import INSTANCES

logger = logging.getLogger(__name__)

_MAX_BYTES = 1 << 20  # of a file


def read_description(directory: Path) -> dict[str, Any]:
    """Reads the description and the examples of a SavedModel.

    A model of another pipeline has no such files. An invalid file is logged.

    Args:
      directory: The SavedModel.

    Returns:
      `classes`, the names in the order of the probabilities; `separator`, what is
      between the names of several predicted labels in a text; `label_range`, the lowest
      and highest score of a regression; and `examples`, rows of the default signature.
      A key without a value in the files is missing.
    """
    described = _read_json(directory / DESCRIPTION_FILE)
    request = _read_json(directory / EXAMPLES_FILE)
    values = {
        "classes": (described.get("classes"), list),
        "separator": (described.get("separator"), str),
        "label_range": (described.get("label_range"), list),
        "examples": (request.get(INSTANCES), list),
    }
    return {
        name: value
        for name, (value, kind) in values.items()
        if value and isinstance(value, kind)
    }


def has_card(directory: Path) -> bool:
    """Returns whether a SavedModel has a model card."""
    return (directory / CARD_FILE).is_file()


def read_card(directory: Path) -> bytes | None:
    """Returns the model card, in Markdown; None if it is missing.

    It may change while the model is loaded. Only the first MiB is read.
    """
    try:
        return _read(directory / CARD_FILE)
    except OSError:
        return None


def _read(path: Path) -> bytes:
    # A pipe would block its reader, and a device may have no end.
    if path.exists() and not path.is_file():
        raise OSError(f"{path} is not a file")
    with path.open("rb") as file:
        return file.read(_MAX_BYTES)


def _read_json(path: Path) -> dict[str, Any]:
    try:
        content = json.loads(_read(path))
    except FileNotFoundError:
        return {}
    except (OSError, ValueError, RecursionError) as error:
        logger.warning("cannot read %s: %s", path, type(error).__name__)
        return {}
    if not isinstance(content, dict):
        logger.warning("cannot read %s: it is not an object", path)
        return {}
    return content
