"""The report of a run on this machine, beside the record of the run."""

from __future__ import annotations

import shutil
from pathlib import Path

from modules.report import functions as report_functions
from modules.report.content import JSON_FILE, PAGE_FILE
from pipeline.config.recipe import Config
from pipeline.inputs.examples.bad_rows import BadRowsError


def copy_report(page: Path, record: Path) -> None:
    """Copies a report to the record of a run, which outlasts the artifacts.

    Args:
      page: The page of the report, with its numbers beside it.
      record: The record of the run.
    """
    for name in (PAGE_FILE, JSON_FILE):
        path = page.with_name(name)
        if path.exists():  # a report that failed has no numbers
            shutil.copyfile(path, record / name)


def report_bad_rows(config: Config, error: BadRowsError) -> tuple[str, str]:
    """Returns numbers and page of a report of rows that cannot be read."""
    settings = {
        "pipeline": config.name,
        "task": config.task.model_dump(),
        "gate_split": config.evaluator.split,
        "max_seq_length": config.preprocessing.max_seq_length,
    }
    verdict = {
        "card": error.card.model_dump(),
        "profile": {},
        "warnings": [],
        "notes": [],
        # Without the head, which is the verdict, and the advice.
        "problems": [
            line.strip() for line in str(error).splitlines() if line.startswith(" ")
        ],
    }
    facts = {"statistics": {}, "data_verdict": verdict}
    return report_functions.describe_refused_data(facts, settings)
