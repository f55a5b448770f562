"""Profiles of the training splits of earlier spans, a small JSON file for each."""

from __future__ import annotations

import dataclasses
import re

from contracts.storage import files, uris
from modules.data.profile import Profile


def read_last(directory: str, span: int) -> Profile | None:
    """Returns the profile of the last span before a span; None if it is the first."""
    names = files.list_names(directory)
    matches = (re.fullmatch(r"(\d+)\.json", name) for name in names)
    spans = [int(match[1]) for match in matches if match]
    last = max((number for number in spans if number < span), default=None)
    if last is None:
        return None
    record = files.read_record(_path(directory, last))
    record.pop("is_multilabel", None)  # of release 1.0.0
    return Profile(**record)


def write(directory: str, span: int, profile: Profile) -> None:
    """Writes the profile of a span, replacing an older one."""
    record = {**dataclasses.asdict(profile), "span": span}
    files.write_record(_path(directory, span), record)


def _path(directory: str, span: int) -> str:
    return uris.join(directory, f"{span}.json")
