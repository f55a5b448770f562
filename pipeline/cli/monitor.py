"""The command that compares what is served with the data of the model."""

from __future__ import annotations

import http.client
import math
import os
import sys
import time
from collections.abc import Iterable, Sequence
from itertools import chain
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click
import prometheus_client
from rich.table import Table

from contracts import metrics, wording
from contracts.errors import SettingError, UsageError
from contracts.storage import files, uris
from contracts.task.definition import TaskConfig, find_described_kind
from modules import environment
from pipeline import exit_status
from pipeline.cli import options, refusals
from pipeline.config import recipe, secrets
from pipeline.config.paths import DEFAULT_CONFIG
from pipeline.config.recipe import make_task
from pipeline.console import Console
from prediction.model_directory import find_model, read_description

if TYPE_CHECKING:
    from pipeline.operations.monitoring.delayed_labels import LiveMetric
    from pipeline.operations.monitoring.drift import Limits
    from pipeline.operations.monitoring.gate import GateComparison

_HOUR = 3600
_REFERENCE, _PREVIOUS, _WINDOW = "reference", "previous", "window"


@click.command("monitor")
@click.option("--model", required=True, metavar="DIR", help="The served model.")
@click.option(
    "--samples", required=True, metavar="DIR", help="What serve --sample-dir keeps."
)
@click.option(
    "--reference",
    required=True,
    metavar="FILES",
    help="TFRecords of Examples, as prepare-data writes them: rows that the model was "
    "evaluated on. A glob in quotes.",
)
@click.option(
    "--hours",
    type=options.FloatRange(0, min_open=True),
    default=24.0,
    help="Length of the window, which ends now; the previous one is as long.",
)
@click.option(
    "--limit",
    "limits",
    multiple=True,
    metavar="CHECK=NUMBER",
    help="Largest difference that is no alarm, such as domain=0.7. Repeatable.",
)
@click.option(
    "--labels",
    metavar="FILE",
    help="A .csv, .tsv, .jsonl, .parquet or .arrow file with the model's text columns "
    "and the labels of served texts, by name.",
)
@click.option(
    "--label-column",
    metavar="COLUMN",
    help="Column in --labels.  [default: label]",
)
@click.option(
    "--label-separator",
    metavar="TEXT",
    help="Separator between several labels in --label-column, which may also be a "
    "list; without it, --labels has a column of 0 and 1 for each label.",
)
@click.option(
    "--threshold",
    "thresholds",
    multiple=True,
    metavar="METRIC=NUMBER",
    help="Lowest value of a metric of labelled rows that is no alarm, such as "
    "accuracy=0.9: those of evaluator.thresholds. Repeatable.",
)
@click.option(
    "--history",
    type=options.NewFile(),
    metavar="FILE",
    help="Append the metric of each version, live and at the gate, to a file of JSON "
    "lines, and compare all versions in it.",
)
@click.option(
    "--report",
    type=click.Path(path_type=Path, dir_okay=False),
    metavar="FILE",
    help="Write the comparison as a page.",
)
@click.option(
    "--prometheus-file",
    type=options.NewFile(),
    metavar="FILE",
    help="Write gauges for node_exporter's textfile collector, FILE.prom.",
)
@click.option(
    "--pushgateway", metavar="URL", help="Push the gauges to a Prometheus Pushgateway."
)
@options.config_option(
    "Recipe: its section data sets how --labels is read.", DEFAULT_CONFIG
)
@options.SET
def monitor_command(
    model: str,
    samples: str,
    reference: str,
    hours: float,
    limits: tuple[str, ...],
    labels: str | None,
    label_column: str | None,
    label_separator: str | None,
    thresholds: tuple[str, ...],
    history: Path | None,
    report: Path | None,
    prometheus_file: Path | None,
    pushgateway: str | None,
    config_file: Path,
    overrides: dict[str, Any],
) -> None:
    """Compare the requests of a server with earlier ones and with the model's data.

    Exits with 4 if a difference or a metric is an alarm.
    """
    from pipeline.operations.monitoring import delayed_labels, drift, gate, gauges

    allowed = _parse_limits(limits)
    uris.refuse_pattern("samples", samples)
    if pushgateway is not None:
        secrets.refuse_password("pushgateway", pushgateway)
    directory = find_model(model)
    for name, value in (("thresholds", thresholds), ("history", history)):
        if value and labels is None:
            raise UsageError(
                name,
                "it needs labels",
                advice="add `labels=FILE`",
                name="E-option-missing",
            )
    known, lowest = None, {}
    if labels is not None:
        task = _task_of(directory, label_column, label_separator)
        lowest = _parse_thresholds(thresholds, task)
        reading = recipe.load_data(config_file, overrides)
        # The format of the recipe belongs to its own data.
        reading = reading.model_copy(update={"format": None})
        known = delayed_labels.read_labels(labels, task, reading)
    environment.set_up(quiet=True)
    from pipeline.operations.monitoring.window_rows import (
        ServedModel,
        read_sample,
        read_texts,
    )
    from report import monitor_page

    served = ServedModel(directory)
    sample = read_sample(samples, served.columns, served.labels)
    end = time.time()
    start = end - hours * _HOUR
    windows = {
        _WINDOW: [row for row in sample if start < row.time <= end],
        _PREVIOUS: [row for row in sample if 2 * start - end < row.time <= start],
        _REFERENCE: served.predict(read_texts(reference, served.columns)),
    }
    rows = {name: len(window) for name, window in windows.items()}
    if rows[_REFERENCE] < allowed.min_rows:
        raise UsageError(
            "reference",
            f"{reference} has {wording.count(rows[_REFERENCE], 'row')}",
            f"at least {allowed.min_rows}",
            "name more files, or use `limits=min_rows=N`",
            name="E-reference-too-small",
        )
    few = [name for name, count in rows.items() if count < allowed.min_rows]
    console = Console()
    for name in few:
        console.print(
            f"{name}: {rows[name]} rows; fewer than {allowed.min_rows} are not compared"
        )
    measured = {
        name: served.measure(window)
        for name, window in windows.items()
        if not {name, _WINDOW} & set(few)
    }
    checks = {
        name: drift.compare(measured[_WINDOW], measured[name], allowed)
        for name in (_REFERENCE, _PREVIOUS)
        if name in measured
    }
    _print_table(
        console,
        ("compared with", "check", "difference", "limit", "p", ""),
        (
            (
                name,
                f"{check.name} ({check.label})" if check.label else check.name,
                f"{check.value:.3f}",
                f"{check.limit:g}",
                f"{check.p:.2g}",
                "ALARM" * check.is_alarm,
            )
            for name, compared in checks.items()
            for check in compared
        ),
    )
    live: list[LiveMetric] = []
    at_gate: list[GateComparison] = []
    if known is not None:
        labelled = [row for row in windows[_WINDOW] if row.texts in known]
        fitting = [row for row in labelled if delayed_labels.fits(row, task)]
        if others := len(labelled) - len(fitting):
            console.print(
                f"left out: {wording.count(others, 'labelled row')} of other classes"
            )
        labelled = fitting
        count = f"{len(labelled)} of {rows[_WINDOW]} rows of the window have a label"
        if lowest and len(labelled) < allowed.min_rows:
            count += f"; fewer than {allowed.min_rows} are not compared with thresholds"
            lowest = {}
        console.print(count)
        live = delayed_labels.measure(labelled, known, task, lowest)
        _print_table(
            console,
            ("metric", "value", "threshold", ""),
            (
                (
                    metric.name,
                    f"{metric.value:.4f}",
                    "" if metric.threshold is None else f"{metric.threshold:g}",
                    "ALARM" * metric.is_alarm,
                )
                for metric in live
            ),
        )
        for version in sorted({row.version for row in labelled if row.version}):
            served_by = [row for row in labelled if row.version == version]
            evaluation = gate.read_evaluation(os.path.dirname(directory), version)
            if len(served_by) < allowed.min_rows:
                labelled_rows = wording.count(len(served_by), "labelled row")
                problem = f"{labelled_rows}; at least {allowed.min_rows} are needed"
            elif evaluation is None:
                problem = "it has no evaluation.json, which Report writes"
            else:
                joined = delayed_labels.join(served_by, known, task)
                at_gate += gate.compare(version, evaluation, joined, task, allowed.p)
                continue
            console.print(f"version {version} is not compared with the gate: {problem}")
        _print_table(
            console,
            ("version", "metric", "gate", "live", "difference", "p", ""),
            (
                (
                    entry.version,
                    entry.metric,
                    f"{entry.gate:.4f}",
                    f"{entry.live:.4f}",
                    f"{entry.difference:+.3f} ({entry.low:+.3f} to {entry.high:+.3f})",
                    f"{entry.p:.2g}",
                    "ALARM" * entry.is_alarm,
                )
                for entry in at_gate
            ),
        )
    versions = gate.record(history, at_gate) if history is not None else []
    correlation = gate.rank_correlation(versions)
    if correlation is not None:
        console.print(
            "rank correlation of gate and live over "
            f"{wording.count(len(versions), 'version')}: "
            f"{correlation[0]:.2f} (p = {correlation[1]:.2g})"
        )
    if report is not None:
        page = monitor_page.render(checks, rows, live, at_gate, versions, correlation)
        files.write(str(report.absolute()), page)
    registry = gauges.build(checks, rows, live, at_gate)
    if prometheus_file is not None:
        # Renamed when it is complete.
        prometheus_client.write_to_textfile(str(prometheus_file), registry)
    judged: list[Any] = [*live, *at_gate, *chain(*checks.values())]
    has_alarm = any(one.is_alarm for one in judged)
    if pushgateway is not None:
        try:
            prometheus_client.push_to_gateway(
                pushgateway, job=f"monitor-{Path(model).name}", registry=registry
            )
        except (OSError, http.client.HTTPException) as error:
            unreachable = UsageError(
                "pushgateway",
                f"{pushgateway} cannot be reached: {error}",
                advice="correct the address, or start the Pushgateway",
                name="E-network-failed",
            )
            if not has_alarm:
                raise unreachable from error
            command = click.get_current_context().command
            click.echo(f"error: {refusals.describe(unreachable, command)}", err=True)
    if has_alarm:
        sys.exit(exit_status.ALARM)


def _print_table(
    console: Console, columns: Sequence[str], rows: Iterable[Sequence[str]]
) -> None:
    table = Table(*columns)
    for row in rows:
        table.add_row(*row)
    if table.row_count:
        console.print(table)


def _parse_limits(texts: tuple[str, ...]) -> Limits:
    import pydantic

    from pipeline.operations.monitoring.drift import Limits

    values = dict(text.partition("=")[::2] for text in texts)
    try:
        return Limits.model_validate_strings(values)
    except pydantic.ValidationError as error:
        problem = error.errors()[0]
        name = ".".join(map(str, problem["loc"]))
        raise SettingError(
            "limits",
            f"{name}={values.get(name, '')}: {problem['msg']}",
            f"CHECK=NUMBER for the checks {', '.join(Limits.model_fields)}",
        ) from error


def _parse_thresholds(texts: tuple[str, ...], task: TaskConfig) -> dict[str, float]:
    thresholds = {}
    for text in texts:
        name, _, number = text.partition("=")
        if name not in task.metrics:
            raise SettingError(
                "thresholds",
                f"{text}: the model has no such metric",
                metrics.shorten(task.metrics),
            )
        low, high = task.metric_table[name].low, task.metric_table[name].high
        try:
            thresholds[name] = float(number)
        except ValueError:
            thresholds[name] = math.nan
        if not low <= thresholds[name] <= high:
            raise SettingError(
                "thresholds", text, f"{low:g} to {high:g}, such as {name}={high:g}"
            )
    return thresholds


def _task_of(
    directory: str, label_column: str | None, label_separator: str | None
) -> TaskConfig:
    described = read_description(directory)
    kind = find_described_kind(described)
    if label_separator is not None and not kind.has_flags:
        raise UsageError(
            "label_separator",
            "it is for a model of several labels, and this one predicts one",
            advice="leave it out",
            name="E-options-conflict",
        )
    has_label_columns = kind.has_flags and label_separator is None
    if label_column is not None and has_label_columns:
        raise UsageError(
            "label_column",
            "without `label_separator`, `labels` has a column of 0 and 1 for each of "
            f"{', '.join(kind.names)}",
            advice="add `label_separator=TEXT`, or leave `label_column` out",
            name="E-options-conflict",
        )
    has_names = bool(kind.names) and not has_label_columns
    label = label_column or "label"
    names = (*described["text_columns"], *kind.names, label)
    # Not read: the ids, and `label_column` if each label has a column.
    unused = max(names, key=len) + "_"
    return make_task(
        {
            "kind": described.get("kind"),
            "text_columns": described["text_columns"],
            "label_column": f"{unused}label" if has_label_columns else label,
            "id_column": unused,
            "label_separator": label_separator,
            "classes": described["classes"],
            "label_range": described["label_range"],
            "labels": "name" if has_names else None,
        }
    )
