"""The command that compares what is served with the data of the model."""

from __future__ import annotations

import http.client
import math
import os
import sys
import time
from itertools import chain
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click
import prometheus_client
from rich.table import Table

from contracts import metrics, wording
from contracts.errors import UsageError
from contracts.storage import files, uris
from contracts.task.definition import TaskConfig, find_described_kind
from contracts.versions import description
from modules import environment
from pipeline import exit_status
from pipeline.cli import options
from pipeline.config import recipe, secrets
from pipeline.config.paths import DEFAULT_CONFIG
from pipeline.config.recipe import make_task
from pipeline.console import Console
from prediction.predictor import find_model

if TYPE_CHECKING:
    from pipeline.monitoring.delayed_labels import LiveMetric
    from pipeline.monitoring.drift import Limits
    from pipeline.monitoring.gate import GateComparison

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
    show_default=True,
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
    "labels_file",
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
    type=click.Path(path_type=Path, dir_okay=False),
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
    type=click.Path(path_type=Path, dir_okay=False),
    metavar="FILE",
    help="Write gauges for node_exporter's textfile collector, FILE.prom.",
)
@click.option(
    "--pushgateway", metavar="URL", help="Push the gauges to a Prometheus Pushgateway."
)
@options.config_option(
    "Recipe: its section data sets how --labels is read.", default=DEFAULT_CONFIG
)
@options.SET
def monitor_command(
    model: str,
    samples: str,
    reference: str,
    hours: float,
    limits: tuple[str, ...],
    labels_file: str | None,
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
    from pipeline.monitoring import delayed_labels, drift, gate, gauges

    allowed = _parse_limits(limits)
    uris.refuse_pattern("--samples", samples)
    if pushgateway is not None:
        secrets.refuse_password("--pushgateway", pushgateway)
    if prometheus_file is not None and not prometheus_file.parent.is_dir():
        raise UsageError(
            got=f"--prometheus-file {prometheus_file}: there is no directory "
            f"{prometheus_file.parent}",
            name="E-no-such-directory",
        )
    directory = find_model(model)
    labels, lowest = None, {}
    if labels_file is None and thresholds:
        raise UsageError(
            got="--threshold needs labels: add --labels FILE", name="E-option-missing"
        )
    if history is not None:
        if labels_file is None:
            raise UsageError(
                got="--history needs labels: add --labels FILE", name="E-option-missing"
            )
        if not history.absolute().parent.is_dir():
            raise UsageError(
                got=f"--history {history}: there is no such directory",
                name="E-no-such-directory",
            )
    if labels_file is not None:
        task = _task_of(directory, label_column, label_separator)
        lowest = _parse_thresholds(thresholds, task)
        reading = recipe.load_data(config_file, overrides)
        # The format of the recipe belongs to its own data.
        reading = reading.model_copy(update={"format": None})
        labels = delayed_labels.read_labels(labels_file, task, reading)
    environment.set_up(quiet=True)
    from pipeline.monitoring.window_rows import ServedModel, read_sample, read_texts
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
    console = Console()
    rows = {name: len(window) for name, window in windows.items()}
    if rows[_REFERENCE] < allowed.min_rows:
        raise UsageError(
            got=f"--reference {reference} has {rows[_REFERENCE]} rows; name files with at "
            f"least {allowed.min_rows}, or set --limit min_rows=N",
            name="E-reference-too-small",
        )
    few = [name for name, count in rows.items() if count < allowed.min_rows]
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
    table = Table("compared with", "check", "difference", "limit", "p", "")
    for name, compared in checks.items():
        for check in compared:
            numbers = f"{check.value:.3f}", f"{check.limit:g}", f"{check.p:.2g}"
            what = f"{check.name} ({check.label})" if check.label else check.name
            table.add_row(name, what, *numbers, "ALARM" * check.is_alarm)
    if checks:
        console.print(table)
    live: list[LiveMetric] = []
    at_gate: list[GateComparison] = []
    if labels is not None:
        labelled = [row for row in windows[_WINDOW] if row.texts in labels]
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
        live = delayed_labels.measure(labelled, labels, task, lowest)
        table = Table("metric", "value", "threshold", "")
        for metric in live:
            bound = "" if metric.threshold is None else f"{metric.threshold:g}"
            alarm = "ALARM" * metric.is_alarm
            table.add_row(metric.name, f"{metric.value:.4f}", bound, alarm)
        if live:
            console.print(table)
        for version in sorted({row.version for row in labelled if row.version}):
            served_by = [row for row in labelled if row.version == version]
            evaluation = gate.read_evaluation(os.path.dirname(directory), version)
            if len(served_by) < allowed.min_rows:
                labelled_rows = wording.count(len(served_by), "labelled row")
                problem = f"{labelled_rows}; at least {allowed.min_rows} are needed"
            elif evaluation is None:
                problem = "it has no evaluation.json, which Report writes"
            else:
                joined = delayed_labels.join(served_by, labels, task)
                at_gate += gate.compare(version, evaluation, joined, task, allowed.p)
                continue
            console.print(f"version {version} is not compared with the gate: {problem}")
        table = Table("version", "metric", "gate", "live", "difference", "p", "")
        for entry in at_gate:
            difference = (
                f"{entry.difference:+.3f} ({entry.low:+.3f} to {entry.high:+.3f})"
            )
            numbers = f"{entry.gate:.4f}", f"{entry.live:.4f}", difference
            alarm = "ALARM" * entry.is_alarm
            table.add_row(
                entry.version, entry.metric, *numbers, f"{entry.p:.2g}", alarm
            )
        if at_gate:
            console.print(table)
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
    has_alarm = any(metric.is_alarm for metric in live)
    has_alarm |= any(entry.is_alarm for entry in at_gate)
    has_alarm |= any(check.is_alarm for check in chain(*checks.values()))
    registry = gauges.build(checks, rows, live, at_gate)
    if prometheus_file is not None:
        # Renamed when it is complete.
        prometheus_client.write_to_textfile(str(prometheus_file), registry)
    if pushgateway is not None:
        try:
            prometheus_client.push_to_gateway(
                pushgateway, job=f"monitor-{Path(model).name}", registry=registry
            )
        except (OSError, http.client.HTTPException) as error:
            unreachable = UsageError(
                got=f"--pushgateway {pushgateway} cannot be reached: {error}",
                name="E-network-failed",
            )
            if not has_alarm:
                raise unreachable from error
            click.echo(f"error: {unreachable}", err=True)
    if has_alarm:
        sys.exit(exit_status.ALARM)


def _parse_limits(texts: tuple[str, ...]) -> Limits:
    import pydantic

    from pipeline.monitoring.drift import Limits

    values = dict(text.partition("=")[::2] for text in texts)
    try:
        return Limits.model_validate_strings(values)
    except pydantic.ValidationError as error:
        problem = error.errors()[0]
        name = ".".join(map(str, problem["loc"]))
        raise UsageError(
            got=f"--limit {name}={values.get(name, '')}: {problem['msg']}; the checks are "
            f"{', '.join(Limits.model_fields)}",
            name="E-settings-refused",
        ) from error


def _parse_thresholds(texts: tuple[str, ...], task: TaskConfig) -> dict[str, float]:
    table = task.metric_table
    thresholds = {}
    for text in texts:
        name, _, number = text.partition("=")
        if name not in task.metrics:
            raise UsageError(
                got=f"--threshold {text}: the model has no such metric; it has "
                f"{metrics.shorten(task.metrics)}",
                name="E-settings-refused",
            )
        low, high = table[name].low, table[name].high
        try:
            thresholds[name] = float(number)
        except ValueError:
            thresholds[name] = math.nan
        if not low <= thresholds[name] <= high:
            raise UsageError(
                got=f"--threshold {text}: allowed are {low:g} to {high:g}, such as "
                f"{name}={high:g}",
                name="E-settings-refused",
            )
    return thresholds


def _task_of(
    directory: str, label_column: str | None, label_separator: str | None
) -> TaskConfig:
    described = description.read_description(directory)
    if described is None:
        raise UsageError(
            got=f"--labels: the model {directory} has no description of its classes; "
            "give a model that this pipeline pushed",
            name="E-model-not-found",
        )
    kind = find_described_kind(described)
    if label_separator is not None and kind.label_size == 1:
        raise UsageError(
            got="--label-separator is for a model of several labels; this one predicts one "
            "label, so leave it out",
            name="E-options-conflict",
        )
    has_label_columns = kind.label_size > 1 and label_separator is None
    if label_column is not None and has_label_columns:
        raise UsageError(
            got=f"--label-column {label_column}: without --label-separator, --labels has a "
            f"column of 0 and 1 for each label ({', '.join(kind.names)}); "
            "add --label-separator, or leave --label-column out",
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
