"""The result of a comparison as gauges for Prometheus."""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence

from prometheus_client import CollectorRegistry, Gauge

from pipeline.monitoring.delayed_labels import LiveMetric
from pipeline.monitoring.drift import Check
from pipeline.monitoring.gate import GateComparison


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
    labels = ("metric", "version")
    gate = Gauge(
        "monitor_gate_metric",
        "Metric of a version on the split that decided its push.",
        labels,
        registry=registry,
    )
    beyond = Gauge(
        "monitor_gate_difference",
        "Metric of the labelled rows of a version minus that of the gate.",
        labels,
        registry=registry,
    )
    worse = Gauge(
        "monitor_gate_alarm",
        "1 if the metric that decides is significantly below that of the gate.",
        labels,
        registry=registry,
    )
    for entry in at_gate:
        gate.labels(entry.metric, entry.version).set(entry.gate)
        beyond.labels(entry.metric, entry.version).set(entry.difference)
        if entry.decides:
            worse.labels(entry.metric, entry.version).set(entry.is_alarm)
    Gauge(
        "monitor_last_run_timestamp_seconds",
        "Unix time of the last comparison.",
        registry=registry,
    ).set(time.time())
    return registry
