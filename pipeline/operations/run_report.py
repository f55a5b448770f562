"""The report of a run on this machine, in the directory of the run's record."""

from __future__ import annotations

import shutil
from pathlib import Path

from contracts.records.data import DataVerdict
from ingest.examples.bad_rows import BadRowsError
from pipeline.config.recipe import Config
from report.content import MODEL_PICTURE, PAGE_FILE, Report
from report.data_part import describe_refused_data


def copy_report(page: Path, record: Path) -> None:
    """Copies a report to a run's record, which is kept when artifacts are deleted."""
    for name in (PAGE_FILE, Report.FILE, MODEL_PICTURE):
        path = page.with_name(name)
        if path.exists():  # if Report failed, there are no numbers and no picture
            shutil.copyfile(path, record / name)


def report_bad_rows(config: Config, error: BadRowsError) -> Report:
    """Returns the report of a run that was refused because of unreadable rows."""
    verdict = DataVerdict(
        card=error.card.model_dump(),
        # The indented lines are the problems; the others are the verdict and advice.
        problems=[
            line.strip()
            for line in error.sentence().splitlines()
            if line.startswith(" ")
        ],
    )
    return describe_refused_data(config.sections, verdict, {})
