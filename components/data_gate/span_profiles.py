"""The training splits of former spans, a small JSON file each."""

from __future__ import annotations

import dataclasses
import re

from modules import files, uris
from modules.data.profile import Profile

_FILE = re.compile(r"(\d+)\.json")


def read_last(directory: str, span: int) -> Profile | None:
    """Returns the profile of the largest span below another; None if there is none."""
    matches = map(_FILE.fullmatch, files.list_names(directory))
    spans = [int(match[1]) for match in matches if match]
    last = max((number for number in spans if number < span), default=None)
    if last is None:
        return None
    return Profile(**files.read_record(_path(directory, last)))


def write(directory: str, span: int, profile: Profile) -> None:
    """Writes the profile of a span, replacing an older one."""
    files.write_record(_path(directory, span), dataclasses.asdict(profile))


def _path(directory: str, span: int) -> str:
    return uris.join(directory, f"{span}.json")
