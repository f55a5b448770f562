"""The files of a report, and the model card, which several write."""

from __future__ import annotations

import os
from collections.abc import Callable

from tfx import v1 as tfx
from tfx.dsl.io import fileio
from tfx.types import artifact_utils
from tfx.utils import io_utils

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
        the last version before it, whose fields that a person filled in are kept; None
        if there is none.
    """
    card = render(_last_card(pushed))
    io_utils.write_string_file(os.path.join(pushed, CARD_FILE), card)


def _last_card(pushed: str) -> str | None:
    directory, version = os.path.split(pushed)
    names = (name.rstrip("/") for name in fileio.listdir(directory))
    versions = sorted((int(name) for name in names if name.isdigit()), reverse=True)
    for number in versions:
        path = os.path.join(directory, str(number), CARD_FILE)
        if number <= int(version) and fileio.exists(path):
            return io_utils.read_string_file(path)
    return None
