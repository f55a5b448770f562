"""Report: one page about a run, and its numbers as JSON."""

from components.report.component import Report

__all__ = ["Report"]
