"""Spans of TFX: data that arrive in numbered directories."""

from __future__ import annotations

import dataclasses
import re
from collections import defaultdict

from contracts.errors import SettingError, UsageError
from contracts.settings.data import SPAN
from contracts.storage import files, uris
from ingest.examples.splits import Report, duplicate_error
from ingest.remote import remote_errors

# TFX's other notations, which are not supported.
_OTHERS = re.compile(r"\{(?:SPAN:\d*|VERSION(?::\d*)?|YYYY|MM|DD)\}")
_SHOWN = 8


@dataclasses.dataclass(frozen=True)
class Span:
    """One directory of a source with `{SPAN}`.

    Attributes:
      number: The span.
      base: The directory above the name that has the number.
      pattern: The path below `base`, in TFX's notation: `{SPAN:2}` is a number of two
        digits with leading zeros.
    """

    number: int
    base: str
    pattern: str


def has_span(source: str) -> bool:
    """Returns whether a source has spans in any of TFX's notations."""
    return SPAN in source or _OTHERS.search(source) is not None


def find_span(
    source: str, number: int | None = None, report: Report = lambda _: None
) -> tuple[str, Span]:
    """Finds a span, by default the newest: the one with the largest number.

    Args:
      source: A directory, local or remote, with `{SPAN}` for digits in its path.
      number: The number of the span; None finds the newest.
      report: Called with a line for the user.

    Returns:
      The span's directory, and the span.

    Raises:
      UsageError: There is no such span, or it has two directories.
    """
    if source.count(SPAN) != 1 or _OTHERS.search(source):
        raise SettingError(
            "data.source",
            source,
            f"{SPAN} once, for digits with or without leading zeros (TFX's other "
            "notations are not supported)",
        )
    names = source.rstrip("/").split("/")
    index = next(index for index, name in enumerate(names) if SPAN in name)
    base, name, rest = "/".join(names[:index]), names[index], names[index + 1 :]
    directories = _list_directories(base)
    # `\d` would also match digits outside of ASCII, which TFX does not.
    numbered = re.compile("([0-9]+)".join(map(re.escape, name.split(SPAN))))
    spans: dict[int, list[str]] = defaultdict(list)
    for match in filter(None, map(numbered.fullmatch, directories)):
        spans[int(match[1])].append(match[1])
    if not spans:
        raise UsageError(
            "data.source",
            f"no directory of {base} is called {name}",
            ", ".join(directories[:_SHOWN]) or "none, as it has no directories",
            name="E-data-not-found",
        )
    newest = max(spans)
    chosen = newest if number is None else number
    if chosen not in spans:
        raise UsageError(
            "data.span",
            f"{chosen}, which {source} does not have",
            ", ".join(map(str, sorted(spans))),
            name="E-data-not-found",
        )
    digits, *others = spans[chosen]
    if others:
        names = [name.replace(SPAN, d) for d in spans[chosen]]
        raise duplicate_error(base, names, f"span {chosen}")
    is_newest = chosen == newest
    which = f"newest of {len(spans)}" if is_newest else f"the newest is {newest}"
    report(f"span {chosen} of {source}: {which}")
    notation = f"{{SPAN:{len(digits)}}}" if digits.startswith("0") else SPAN
    pattern = "/".join((name.replace(SPAN, notation), *rest))
    directory = "/".join((base, name.replace(SPAN, digits), *rest))
    return directory, Span(chosen, base, pattern)


def _list_directories(base: str) -> list[str]:
    if uris.is_local(base):
        return sorted(files.list_directories(base))
    with remote_errors.usage_errors(base, "`data.source=DIR`"):
        return sorted(files.list_directories(base))
