"""Redacts the texts of rows in the parts of a report."""

from __future__ import annotations

from collections.abc import Iterable

from contracts.records.checks import CheckResult
from contracts.redaction import Redaction
from report.content import Report


def redact_checks(results: Iterable[CheckResult], redaction: Redaction) -> None:
    """Redacts the rows that checks show.

    Args:
      results: The results, which are changed.
      redaction: The user's function.
    """
    for row in (row for result in results for row in result.rows):
        changed = redaction.redact_row(row.texts | row.changed) if row.changed else {}
        row.changed = {column: changed[column] for column in row.changed}
        row.texts = redaction.redact_row(row.texts)


def redact_report(report: Report, redaction: Redaction) -> None:
    """Redacts the rows of a report; `redact_checks` redacts the rows of its checks.

    The most frequent value of a text column is redacted as a row whose other texts are
    empty. Tokens of a redacted row and of the first batch are left out.

    Args:
      report: The report, which is changed.
      redaction: The user's function. Its errors are added to the notes.
    """
    columns = report.task.text_columns
    for row in report.worst_rows:
        texts = dict(zip(columns, row.texts, strict=False))
        shown = list(redaction.redact_row(texts).values()) if texts else []
        if not texts or shown != row.texts:
            row.tokens, row.cut = [], None
        row.texts = shown
    empty = dict.fromkeys(columns, "")
    for column in (column for split in report.splits for column in split.columns):
        if column.name in columns:
            column.top_values = [
                (redaction.redact_row({**empty, column.name: text})[column.name], count)
                for text, count in column.top_values
            ]
    report.batch = None
    if redaction.note:
        report.data.notes.append(redaction.note)
