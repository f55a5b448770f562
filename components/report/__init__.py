"""Report: one page about a run, and its numbers as JSON."""

from components.report.component import Report
from components.report.settings import ReportSettings

__all__ = ["Report", "ReportSettings"]
