"""The result of a comparison as gauges for Prometheus."""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence

from prometheus_client import CollectorRegistry, Gauge

from pipeline.operations.monitoring.delayed_labels import LiveMetric
from pipeline.operations.monitoring.drift import Check
from pipeline.operations.monitoring.gate import GateComparison


def build(
    checks: Mapping[str, Sequence[Check]],
    rows: Mapping[str, int],
    metrics: Sequence[LiveMetric],
    at_gate: Sequence[GateComparison],
) -> CollectorRegistry:
    """Returns a registry with the gauges.

    Args:
      checks: The checks of the window, by what it was compared with.
      rows: The rows of each window.
      metrics: Metrics of the labelled rows.
      at_gate: Metrics of each version, live and at the gate.
    """
    registry = CollectorRegistry()

    def gauge(name: str, description: str, *labels: str) -> Gauge:
        return Gauge(f"monitor_{name}", description, labels, registry=registry)

    labels = ("reference", "check")
    difference = gauge("difference", "Difference of the window.", *labels)
    limit = gauge("limit", "Largest difference that is no alarm.", *labels)
    alarm = gauge("alarm", "1 if the check is an alarm.", *labels)
    for reference, compared in checks.items():
        for check in compared:
            difference.labels(reference, check.name).set(check.value)
            limit.labels(reference, check.name).set(check.limit)
            alarm.labels(reference, check.name).set(check.is_alarm)
    counts = gauge("rows", "Rows of a window.", "window")
    for window, count in rows.items():
        counts.labels(window).set(count)
    live = gauge(
        "metric", "Metric of the rows of the window that have a label.", "metric"
    )
    below = gauge("metric_alarm", "1 if the metric is below its threshold.", "metric")
    for metric in metrics:
        live.labels(metric.name).set(metric.value)
        if metric.threshold is not None:
            below.labels(metric.name).set(metric.is_alarm)
    labels = ("metric", "version")
    gate = gauge(
        "gate_metric",
        "Metric of a version on the split that decided its push.",
        *labels,
    )
    beyond = gauge(
        "gate_difference",
        "Metric of the labelled rows of a version minus that of the gate.",
        *labels,
    )
    worse = gauge(
        "gate_alarm",
        "1 if the metric that decides is significantly below that of the gate.",
        *labels,
    )
    for entry in at_gate:
        gate.labels(entry.metric, entry.version).set(entry.gate)
        beyond.labels(entry.metric, entry.version).set(entry.difference)
        if entry.decides:
            worse.labels(entry.metric, entry.version).set(entry.is_alarm)
    last = gauge("last_run_timestamp_seconds", "Unix time of the last comparison.")
    last.set(time.time())
    return registry
