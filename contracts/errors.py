"""The errors that a user can fix, and how they are worded.

An edit here reruns the Trainer, so errors of a single package are defined there.
"""

from __future__ import annotations

import contextlib
import json
import re
from collections.abc import Callable
from typing import Any

# A name of a setting or an argument, and its value if a `=` follows.
_REFERENCE = re.compile(r"`([a-z]\w*(?:\.\w+)*)(?:=([^`]*))?`")


def named(message: str, name: str) -> str:
    """Returns a message with its stable name, which docs/troubleshooting/ explains.

    Args:
      message: A message of any number of lines.
      name: `E-` and words of lower-case letters and digits, such as `E-output-in-use`.
    """
    return f"{message} [{name}]"


def show_in_python(name: str, value: str | None) -> str:
    """Returns how a call in Python sets a setting or an argument.

    Args:
      name: The argument, or the dotted key of a setting.
      value: Its value; None if only the name is shown.
    """
    if value is None:
        return name
    shown = value if value.isupper() else repr(_read(value))  # FILE: a placeholder
    return f"settings={{{name!r}: {shown}}}" if "." in name else f"{name}={shown}"


def _read(value: str) -> Any:
    """Returns a number, a boolean, null or a list of JSON or Python; or the text."""
    with contextlib.suppress(ValueError):
        return json.loads(value)
    return {"True": True, "False": False}.get(value, value)


class UsageError(Exception):
    """Bad usage, settings or data, which the user can fix.

    The fields have the same names for all users. In each text, a name in backticks is
    an argument or a setting, and may have a value: `min_probability`,
    `data.delimiter=tab`. An interface shows it as its users write it. The command line
    prints the sentence and exits with `exit_status.USAGE`; other exceptions are
    failures.

    Args:
      setting: What to correct: an argument, the dotted key of a setting, an
        environment variable, or the path of a file or directory.
      got: The value, or what is wrong with it.
      allowed: The values or the form that are allowed.
      advice: What to do next, as an imperative.
      name: The stable name, as in `named`, with which the message ends.

    Attributes:
      setting: See above; None if there is none, as are the others.
      got: See above.
      allowed: See above.
      advice: See above.
      name: See above.
    """

    def __init__(
        self,
        setting: str | None = None,
        got: str | None = None,
        allowed: str | None = None,
        advice: str | None = None,
        *,
        name: str,
    ) -> None:
        super().__init__(setting, got, allowed, advice, name)
        self.setting = setting
        self.got = got
        self.allowed = allowed
        self.advice = advice
        self.name = name

    def __reduce__(self) -> tuple[Any, ...]:
        # An exception is pickled with positional arguments, and may have attributes.
        return _restore, (type(self), self.args, self.__dict__)

    def sentence(self, show: Callable[[str, str | None], str] = show_in_python) -> str:
        """Returns the message without the stable name.

        Args:
          show: Returns how users of an interface write a name and its value.
        """
        setting = self.setting and show(self.setting, None)
        got = "''" if self.got == "" else self.got  # an empty value
        start = ": ".join(filter(None, [setting, got]))
        allowed = self.allowed and f"allowed: {self.allowed}"
        separator = "\n" if "\n" in start else "; "  # after a list
        text = separator.join(filter(None, [start, allowed, self.advice]))

        def replace(match: re.Match[str]) -> str:
            shown = show(match[1], match[2])
            return match[0] if shown == match[1] else shown  # not of this interface

        return _REFERENCE.sub(replace, text)

    def __str__(self) -> str:
        return named(self.sentence(), self.name)


def _restore(
    kind: type[UsageError], args: tuple[Any, ...], attributes: dict[str, Any]
) -> UsageError:
    error = kind.__new__(kind, *args)
    error.__dict__.update(attributes)
    return error


class SettingError(UsageError, ValueError):
    """A setting or an argument is refused.

    pydantic reports it, as any ValueError of a validator, with those of other settings.
    There, the setting is relative to the section, or None if it is the validated one;
    `pipeline.config.problems` completes it.
    """

    def __init__(
        self,
        setting: str | None = None,
        got: str | None = None,
        allowed: str | None = None,
        advice: str | None = None,
    ) -> None:
        super().__init__(setting, got, allowed, advice, name="E-settings-refused")


class DataRefusedError(UsageError):
    """The rows were refused; the message names some of them."""
