"""The files of a report, and the model card, which several write."""

from __future__ import annotations

import os
from collections.abc import Callable

from tfx import v1 as tfx
from tfx.dsl.io import fileio
from tfx.types import artifact_utils
from tfx.utils import io_utils

from components import versions

JSON_FILE = "report.json"
PAGE_FILE = "report.html"
CARD_FILE = "README.md"  # as Hugging Face names it


def statistics_files(statistics: tfx.dsl.Artifact) -> dict[str, str]:
    """Returns the file of TFDV's statistics by split."""
    return {
        split: io_utils.get_only_uri_in_dir(
            artifact_utils.get_split_uri([statistics], split)
        )
        for split in artifact_utils.decode_split_names(statistics.split_names)
    }


def write_report(directory: str, files: tuple[str, str]) -> None:
    """Writes a report's numbers and its page into a directory."""
    for name, content in zip((JSON_FILE, PAGE_FILE), files, strict=True):
        io_utils.write_string_file(os.path.join(directory, name), content)


def write_card(pushed: str, render: Callable[[str | None], str]) -> None:
    """Writes the card of a pushed version, into its directory.

    Args:
      pushed: Directory of the version.
      render: Returns the card. It is called with the card of this version, or else of
        the last version before it, also one that was rolled back, whose fields that a
        person filled in are kept; None if there is none.
    """
    card = render(_last_card(pushed))
    path = os.path.join(pushed, CARD_FILE)
    incomplete = f"{path}.incomplete"  # a server reads the card meanwhile
    io_utils.write_string_file(incomplete, card)
    fileio.rename(incomplete, path, overwrite=True)


def _last_card(pushed: str) -> str | None:
    directory, version = os.path.split(pushed)
    cards = {
        int(name): os.path.join(parent, name, CARD_FILE)
        for parent in (os.path.join(directory, versions.WITHDRAWN), directory)
        if fileio.isdir(parent)
        for name in (entry.rstrip("/") for entry in fileio.listdir(parent))
        if name.isdigit() and int(name) <= int(version)
    }
    for number in sorted(cards, reverse=True):
        if fileio.exists(cards[number]):
            return io_utils.read_string_file(cards[number])
    return None
