"""The result of a comparison as gauges for Prometheus."""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence

from prometheus_client import CollectorRegistry, Gauge

from pipeline.monitoring.delayed_labels import LiveMetric
from pipeline.monitoring.drift import Check


def build(
    checks: Mapping[str, Sequence[Check]],
    rows: Mapping[str, int],
    metrics: Sequence[LiveMetric],
) -> CollectorRegistry:
    """Returns a registry with the gauges.

    Args:
      checks: The checks of the window, by what it was compared with.
      rows: The rows of each window.
      metrics: Metrics of the labelled rows.
    """
    registry = CollectorRegistry()
    labels = ("reference", "check")
    difference = Gauge(
        "monitor_difference",
        "Difference of the window.",
        labels,
        registry=registry,
    )
    limit = Gauge(
        "monitor_limit",
        "Largest difference that is no alarm.",
        labels,
        registry=registry,
    )
    alarm = Gauge(
        "monitor_alarm", "1 if the check is an alarm.", labels, registry=registry
    )
    for reference, compared in checks.items():
        for check in compared:
            difference.labels(reference, check.name).set(check.value)
            limit.labels(reference, check.name).set(check.limit)
            alarm.labels(reference, check.name).set(check.is_alarm)
    counts = Gauge("monitor_rows", "Rows of a window.", ("window",), registry=registry)
    for window, count in rows.items():
        counts.labels(window).set(count)
    live = Gauge(
        "monitor_metric",
        "Metric of the rows of the window that have a label.",
        ("metric",),
        registry=registry,
    )
    below = Gauge(
        "monitor_metric_alarm",
        "1 if the metric is below its threshold.",
        ("metric",),
        registry=registry,
    )
    for metric in metrics:
        live.labels(metric.name).set(metric.value)
        if metric.threshold is not None:
            below.labels(metric.name).set(metric.is_alarm)
    Gauge(
        "monitor_last_run_timestamp_seconds",
        "Unix time of the last comparison.",
        registry=registry,
    ).set(time.time())
    return registry
