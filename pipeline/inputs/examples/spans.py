"""Spans: data that arrive as one numbered directory after another, as TFX has them."""

from __future__ import annotations

import dataclasses
import os
import re

from pipeline.config.errors import UsageError
from pipeline.inputs.examples.splits import Report

SPAN = "{SPAN}"
# TFX's other notations, which nothing here resolves.
_OTHERS = re.compile(r"\{(?:SPAN:\d*|VERSION(?::\d*)?|YYYY|MM|DD)\}")
_SHOWN = 8


@dataclasses.dataclass(frozen=True)
class Span:
    """One of the directories that a source with `{SPAN}` stands for.

    Attributes:
      number: The span.
      base: The directory above the name that has the number.
      pattern: The path from there on, in TFX's notation: `{SPAN:2}` is a number of two
        digits, zeros first.
    """

    number: int
    base: str
    pattern: str


def has_span(source: str) -> bool:
    """Tells whether a source is one of spans, in TFX's notation."""
    return SPAN in source or _OTHERS.search(source) is not None


def find_span(
    source: str, number: int | None = None, report: Report = lambda _: None
) -> tuple[str, Span]:
    """Finds a span, by default the newest: the one of the largest number.

    Args:
      source: A directory, local or remote, with `{SPAN}` in one of its names, where any
        digits may stand.
      number: The span to take; None takes the newest.
      report: Called with what a person would want to know.

    Returns:
      The span's directory, and the span.

    Raises:
      UsageError: There is no such span, or two directories are it.
    """
    base, name, rest = _split(source)
    found: dict[int, list[str]] = {}
    for digits in _list_digits(base, name):
        found.setdefault(int(digits), []).append(digits)
    if not found:
        names = ", ".join(_list_directories(base)[:_SHOWN]) or "no directories"
        raise UsageError(
            f"data.source {source}: no directory is called {name}; {base} holds {names}"
        )
    newest = max(found)
    chosen = newest if number is None else number
    if chosen not in found:
        raise UsageError(
            f"data.span is {chosen}; {source} has the spans "
            f"{', '.join(map(str, sorted(found)))}"
        )
    if len(found[chosen]) > 1:
        both = " and ".join(name.replace(SPAN, each) for each in sorted(found[chosen]))
        raise UsageError(
            f"data.source {source}: {base} holds {both}, which are both span {chosen}; "
            "keep one of them"
        )
    (digits,) = found[chosen]
    which = f"newest of {len(found)}" if chosen == newest else f"the newest is {newest}"
    report(f"span {chosen} of {source}: {which}")
    pattern = "/".join((name.replace(SPAN, _notation(digits)), *rest))
    directory = "/".join((base, name.replace(SPAN, digits), *rest))
    return directory, Span(chosen, base, pattern)


def _split(source: str) -> tuple[str, str, list[str]]:
    """Splits a source at the name that has the number."""
    if source.count(SPAN) != 1 or _OTHERS.search(source):
        raise UsageError(
            f"data.source is {source}; of TFX's notation {SPAN} is allowed, once, for "
            "digits with or without leading zeros"
        )
    names = source.rstrip("/").split("/")
    place = next(index for index, name in enumerate(names) if SPAN in name)
    return "/".join(names[:place]), names[place], names[place + 1 :]


def _list_digits(base: str, name: str) -> list[str]:
    before, after = map(re.escape, name.split(SPAN))
    # ASCII's digits: TFX knows no others.
    matches = (
        re.fullmatch(f"{before}([0-9]+){after}", each)
        for each in _list_directories(base)
    )
    return [match[1] for match in matches if match]


def _list_directories(base: str) -> list[str]:
    if "://" not in base:
        if not os.path.isdir(base):
            return []
        return sorted(entry.name for entry in os.scandir(base) if entry.is_dir())
    import tensorflow as tf

    try:
        if not tf.io.gfile.isdir(base):
            return []
        names = sorted(name.rstrip("/") for name in tf.io.gfile.listdir(base))
        return [name for name in names if tf.io.gfile.isdir(f"{base}/{name}")]
    except tf.errors.OpError as error:
        raise UsageError(
            f"data {base} cannot be listed: {str(error)[:200]}. Without a network or "
            "credentials for it, give a local copy with --data DIR"
        ) from error


def _notation(digits: str) -> str:
    return f"{{SPAN:{len(digits)}}}" if digits.startswith("0") else SPAN
