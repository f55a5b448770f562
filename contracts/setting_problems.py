"""A value of a setting that pydantic refuses, as an error of usage."""

from __future__ import annotations

import re
from typing import Any

from contracts.errors import SettingError, UsageError

_EXPECTED = re.compile(r"\w+ should (?:be |have |match )?(.+?)(?: after validation.*)?")


def describe(
    detail: Any, section: str = "", name: str = "E-settings-refused"
) -> UsageError:
    """Returns the error of one detail in a `pydantic.ValidationError`.

    Args:
      detail: The detail, of a value that is refused.
      section: The section of the settings that were validated.
      name: The stable name of the error.
    """
    location, value = detail["loc"], detail["input"]
    key = join(section, *location)
    shown = repr(value) if location and not isinstance(value, dict) else None
    error = detail.get("ctx", {}).get("error")
    if isinstance(error, SettingError):
        key, got = join(key, error.setting or ""), error.got
        if not error.setting:
            got = ": ".join(filter(None, [shown, got])) or None
        return UsageError(key or None, got, error.allowed, error.advice, name=name)
    if expected := _EXPECTED.fullmatch(detail["msg"]):
        return UsageError(key, repr(value), expected[1], name=name)
    got = ": ".join(filter(None, [shown, detail["msg"]]))
    return UsageError(key or None, got, name=name)


def join(*parts: Any) -> str:
    """Returns the dotted key of a setting."""
    return ".".join(str(part) for part in parts if part != "")
