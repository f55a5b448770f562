"""Reads the files next to a model that people see: its task, examples and card."""

from __future__ import annotations

import json
import logging
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from contracts.versions.exported_model import DESCRIPTION_FILE
from contracts.versions.served_versions import EXAMPLES_FILE
from serving.json_requests import INSTANCES

logger = logging.getLogger(__name__)

_MAX_BYTES = 1 << 20  # of a file


def read_description(directory: Path) -> dict[str, Any]:
    """Reads the description and the examples of a SavedModel; see `describe`.

    Args:
      directory: The SavedModel. One of another pipeline has no such files.
    """
    described = _read_json(directory / DESCRIPTION_FILE)
    return describe(described, directory / EXAMPLES_FILE)


def describe(described: Mapping[str, Any], examples: Path) -> dict[str, Any]:
    """Describes a model for people who try it.

    Args:
      described: What the model predicts, with other facts.
      examples: A predict request. The file may be missing; an invalid one is logged.

    Returns:
      `classes`, the names in the order of the probabilities; `separator`, what is
      between the names of several predicted labels in a text; `label_range`, the lowest
      and highest score of a regression; and `examples`, rows of the default signature.
      A key without a value is missing.
    """
    request = _read_json(examples)
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


def read_card(path: Path) -> bytes | None:
    """Returns a model card, in Markdown; None if it is missing.

    It may change while the model is loaded. Only the first MiB is read.
    """
    try:
        return _read(path)
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
