"""The files of a report, which Report and DataGate write."""

from __future__ import annotations

import os

from tfx import v1 as tfx
from tfx.types import artifact_utils
from tfx.utils import io_utils

JSON_FILE = "report.json"
PAGE_FILE = "report.html"


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
