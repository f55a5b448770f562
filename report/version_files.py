"""The files that describe a pushed version: its card, and its evaluation."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from contracts.records.evaluation import Estimate, Evaluation
from contracts.versions import served_versions
from report import model_card
from report.content import Report


def write(
    pushed: str, report: Report, override: Mapping[str, Any] | None = None
) -> None:
    """Writes the card of a version, and the evaluation that later runs read.

    Args:
      pushed: Directory that the version was pushed to.
      report: The run that made it.
      override: As in `model_card.render`.

    Raises:
      VersionError: As in `served_versions.write_card`.
      FileNotFoundError: The version was moved or deleted in the meantime.
    """
    version = served_versions.write_card(
        pushed, lambda previous: model_card.render(report, previous, override)
    )
    (data,) = (step for step in report.lineage if step.kind == "data")
    evaluation = Evaluation(
        split=report.split,
        rows=sum(s.rows for s in report.splits if s.name == report.split),
        metric=report.task.metric,
        metrics={
            metric.metric: Estimate(
                value=metric.value, interval=report.intervals.get(metric.metric)
            )
            for metric in report.metrics
        },
        data=data.name,
        data_version=data.version,
        splitting=report.data.card.get("splitting"),
    )
    served_versions.write_evaluation(version, evaluation.as_json())
