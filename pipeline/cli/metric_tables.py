"""Tables of metrics for the terminal: one run with its bounds, or several runs."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING

from rich.table import Column, Table
from rich.text import Text

from contracts.metrics import CLASS_METRICS

if TYPE_CHECKING:
    from contracts.records.evaluation import Estimate, MetricVerdict
    from pipeline.operations.comparison import Comparison

_NAME = "metric"


def one_value(metric: str, value: float | None) -> str:
    """Returns a metric with its value, for the tables of runs and versions."""
    return "" if value is None else f"{metric} {value:.4f}"


def verdict_tables(metrics: Iterable[MetricVerdict]) -> list[Table]:
    """Returns a table with a line for each metric, and one of the metrics by class.

    The first table has the metrics of classes that have a bound. Without classes there
    is no second table.
    """
    table = Table(
        Column(_NAME, overflow="fold"),  # the whole name of a class
        *("value", "champion", "threshold", "max. drop", "bounds"),
    )
    by_class: dict[str, dict[str, str]] = {}
    for metric in metrics:
        kind, _, class_name = metric.metric.partition("/")
        if class_name:
            by_class.setdefault(class_name, {})[kind] = _number(metric.value)
        if class_name and not metric.is_bounded:
            continue
        bounds = (metric.champion, metric.threshold, metric.max_regression)
        table.add_row(
            Text(metric.metric),
            *map(_number, (metric.value, *bounds)),
            ("failed" if metric.failures else "passed") if metric.is_bounded else "",
        )
    if not by_class:
        return [table]
    classes = Table("class", *CLASS_METRICS)
    for name, values in by_class.items():
        classes.add_row(Text(name), *(values[kind] for kind in CLASS_METRICS))
    return [table, classes]


def comparison_table(comparison: Comparison) -> Table:
    """Returns a line for each metric, with p-values of the runs against the first."""
    first, *others = comparison.runs
    headers = [
        "A",
        *(text for letter in comparison.letters[1:] for text in (letter, "p")),
    ]
    table = Table(Column(_NAME, overflow="fold"), *headers)
    for name in others[0].tests:
        cells = [_interval(first.metrics[name])]
        for run in others:
            cells += [_interval(run.metrics[name]), f"{run.tests[name].p_value:.2g}"]
        table.add_row(Text(name), *cells)
    return table


def _number(value: float | None) -> str:
    return "" if value is None else f"{value:.4g}"


def _interval(metric: Estimate) -> str:
    if metric.interval is None:
        return f"{metric.value:.3f}"
    low, high = metric.interval
    return f"{metric.value:.3f} ({low:.3f} to {high:.3f})"
