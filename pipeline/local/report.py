"""The report of a run on this machine, beside the record of the run."""

from __future__ import annotations

import shutil
from pathlib import Path

from modules.report import content
from modules.report.content import JSON_FILE, MODEL_PICTURE, PAGE_FILE
from modules.report.data_part import describe_refused_data
from modules.verdicts import DataVerdict
from pipeline.config.recipe import Config
from pipeline.inputs.examples.bad_rows import BadRowsError


def copy_report(page: Path, record: Path) -> None:
    """Copies a report to the record of a run, which outlasts the artifacts.

    Args:
      page: The page of the report, with its numbers beside it.
      record: The record of the run.
    """
    for name in (PAGE_FILE, JSON_FILE, MODEL_PICTURE):
        path = page.with_name(name)
        if path.exists():  # a report that failed has no numbers or picture
            shutil.copyfile(path, record / name)


def report_bad_rows(config: Config, error: BadRowsError) -> content.Report:
    """Returns the report of rows that cannot be read."""
    verdict = DataVerdict(
        card=error.card.model_dump(),
        # Without the head, which is the verdict, and the advice.
        problems=[
            line.strip() for line in str(error).splitlines() if line.startswith(" ")
        ],
    )
    return describe_refused_data(config.run_settings, verdict, {})
