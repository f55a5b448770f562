"""The files of a report, which Report, DataGate and a run on this machine write."""

from __future__ import annotations

import html

from tfx import v1 as tfx
from tfx.types import artifact_utils
from tfx.utils import io_utils

from contracts.storage import files, uris
from report import page
from report.content import ERROR_FILE, PAGE_FILE, Report

_ERROR_PAGE = """<!doctype html>
<html lang="en">
<meta charset="utf-8">
<title>The report failed</title>
<h1>The report failed</h1>
<p>The run itself ended; see the verdicts of Evaluator and ServingCheck, and what
AtomicPusher pushed. Missing: {}</p>
<pre>{}</pre>
</html>
"""


def statistics_files(statistics: tfx.dsl.Artifact) -> dict[str, str]:
    """Returns the file of TFDV's statistics by split."""
    return {
        split: io_utils.get_only_uri_in_dir(
            artifact_utils.get_split_uri([statistics], split)
        )
        for split in artifact_utils.decode_split_names(statistics.split_names)
    }


def write_report(directory: str, report: Report) -> None:
    """Writes a report's numbers and its page into a directory."""
    rendered = page.render(report)
    report.write(directory)
    files.write(uris.join(directory, PAGE_FILE), rendered)


def write_error(directory: str, missing: str, trace: str, *, has_page: bool) -> None:
    """Writes why a report failed, also as a page if the report has no page.

    Args:
      directory: Directory of the report.
      missing: What could not be written, and the error, in one line.
      trace: The traceback.
      has_page: Whether the page of the report has been written.
    """
    files.write(uris.join(directory, ERROR_FILE), f"{missing}\n\n{trace}")
    if not has_page:
        page = _ERROR_PAGE.format(html.escape(missing), html.escape(trace))
        files.write(uris.join(directory, PAGE_FILE), page)
