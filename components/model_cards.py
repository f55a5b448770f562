"""The cards of pushed versions, each in the directory of its version."""

from __future__ import annotations

import os
from collections.abc import Callable

from tfx.dsl.io import fileio
from tfx.utils import io_utils

from components import versions
from modules import files, uris

CARD_FILE = "README.md"  # as Hugging Face names it


def write_card(pushed: str, render: Callable[[str | None], str]) -> None:
    """Writes the card of a pushed version, into its directory.

    Args:
      pushed: Directory of the version.
      render: Returns the card. It is called with the card of this version, or else of
        the last version before it, also one that was rolled back, whose fields that a
        person filled in are kept; None if there is none.
    """
    files.write(uris.join(pushed, CARD_FILE), render(_last_card(pushed)))


def _last_card(pushed: str) -> str | None:
    directory, version = os.path.split(pushed)
    cards = {
        int(name): uris.join(parent, name, CARD_FILE)
        for parent in (uris.join(directory, versions.WITHDRAWN), directory)
        if fileio.isdir(parent)
        for name in (entry.rstrip("/") for entry in fileio.listdir(parent))
        if name.isdigit() and int(name) <= int(version)
    }
    for number in sorted(cards, reverse=True):
        if fileio.exists(cards[number]):
            return io_utils.read_string_file(cards[number])
    return None
