"""Describes files that cannot be read, and reads those that may be damaged."""

from __future__ import annotations

import json
import logging
from typing import TypeVar

import pydantic
import yaml

from contracts.errors import UsageError
from contracts.storage import file_format, files

ADVICE = "restore it from a backup"

_Model = TypeVar("_Model", bound=pydantic.BaseModel)

logger = logging.getLogger(__name__)


def to_error(
    path: object,
    error: Exception,
    advice: str = ADVICE,
    *,
    name: str = "E-record-damaged",
) -> UsageError:
    """Returns the error of a file for that of its reader.

    If the file has the format of another release, the stable name is its own.
    """
    match error:
        case file_format.FormatError():
            return UsageError(*error.args[:-1], name=error.name)
        case FileNotFoundError():
            return UsageError(str(path), "missing", advice=advice, name=name)
        case OSError():
            reason = error.strerror or type(error).__name__
        case UnicodeDecodeError():
            reason = f"byte {error.start + 1} is not UTF-8"
        case json.JSONDecodeError():
            reason = f"not JSON, line {error.lineno} column {error.colno}"
        case pydantic.ValidationError():
            (first, *_) = error.errors()
            where = ".".join(map(str, first["loc"]))
            reason = f"{where}: {first['msg']}" if where else first["msg"]
        case yaml.YAMLError():
            reason = "not YAML"
        case _:
            reason = type(error).__name__
    return UsageError(str(path), f"cannot be read: {reason}", advice=advice, name=name)


def describe(path: object, error: Exception, advice: str = ADVICE) -> str:
    """Returns the sentence of `to_error`."""
    return to_error(path, error, advice).sentence()


def read(
    path: str, model: type[_Model], number: int = file_format.FORMAT
) -> _Model | None:
    """Reads a record that a run wrote.

    Args:
      path: The file.
      model: Its content.
      number: The format number that this release reads.

    Returns:
      The record; None if there is no file, or, after a warning, if it is damaged.
    """
    try:
        content = files.read_record(path, number)
        return None if content is None else model.model_validate(content)
    except (OSError, ValueError) as error:
        logger.warning("%s", describe(path, error))
        return None
