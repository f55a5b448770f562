"""The report as one HTML file that opens from disk, without a network."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from typing import Any

from markupsafe import Markup

from contracts.metrics import class_metric
from contracts.records.checks import STATUS_MARKS, sort_results
from contracts.records.evaluation import MetricVerdict
from contracts.records.serving import ServingReport
from contracts.run_states import MARKS
from contracts.task.definition import TaskConfig
from report import checks_part, curves, formatting, plots, search_plots, templates
from report.content import PredictedRow, Report
from report.scale import Scale

SMALL_MATRIX = 12  # classes whose confusion matrix is a table
_MAX_CONFUSIONS = 15
_MAX_PROBABILITIES = 6
_HEAT_LEVELS = 9
_MAX_CHECK_ROWS = 100


def render(
    report: Report, home: str | None = None, problems: Sequence[str] = ()
) -> str:
    """Returns the page of a report.

    Args:
      report: The report.
      home: Address of the page of all runs, if there is one.
      problems: What cannot be read of the run's record, a line each.
    """
    template = templates.environment().get_template("page.html.jinja")
    style, script = _inline()
    page = template.render(
        report=report,
        home=home,
        problems=problems,
        glyph=MARKS[report.outcome].symbol,
        **_view(report),
        style=Markup(style),
        script=Markup(script),
        policy=policy(),
    )
    return page.strip() + "\n"


def policy() -> str:
    """Returns the content security policy of the page."""
    return templates.policy(*_inline())


def _inline() -> tuple[str, str]:
    """Returns the contents of the style and the script element."""
    return templates.style(), templates.script("tables.js", "page.js")


def _view(report: Report) -> dict[str, Any]:
    """Returns the template's variables besides the report."""
    by_name = {metric.metric: metric for metric in report.metrics}
    overall = [m for m in report.metrics if "/" not in m.metric or m.is_bounded]
    check = report.serving_check
    return {
        "overall": overall,
        "scale": MetricScale(overall, report.task.metrics, report.intervals),
        "deciding": by_name.get(report.task.metric),
        "by_class": _by_class(report, by_name)
        if any("/" in name for name in by_name)
        else [],
        "figures": _figures(report),
        "lengths": {
            split.name: plots.lengths(
                split.name,
                report.data.profile[split.name].lengths,
                report.packing.max_seq_length,
            )
            for split in report.splits
            if split.name in report.data.profile
        },
        "confusion": _confusion(report),
        "confusions": _confusions(report),
        "slice_metrics": _slice_metrics(report, overall),
        "rows": _rows(report),
        "all_rows_shown": any(
            split.name == report.split and split.rows <= len(report.worst_rows)
            for split in report.splits
        ),
        "labels": _labels(report),
        "total_seconds": sum(report.components.values()),
        "longest": max(report.components.values(), default=0) or 1,
        "checks": sort_results(report.checks),
        "checks_summary": checks_part.summarize(report.checks),
        "check_marks": STATUS_MARKS,
        "columns_of": checks_part.describe_columns,
        "max_check_rows": _MAX_CHECK_ROWS,
        "serving_facts": _serving_check(check) if check else [],
    }


class MetricScale(Scale):
    """The common axis of the metrics' intervals.

    Args:
      metrics: The metrics.
      names: The metrics that are at most 1, where higher is better. The others, such as
        the loss, are not drawn.
      intervals: The intervals of metrics.
    """

    def __init__(
        self,
        metrics: Iterable[MetricVerdict],
        names: Collection[str],
        intervals: Mapping[str, tuple[float, float]],
    ) -> None:
        self._names = names
        values = (
            value
            for metric in metrics
            if self.fits(metric)
            for value in (
                metric.value,
                *intervals.get(metric.metric, ()),
                metric.champion,
                metric.threshold,
            )
            if value is not None
        )
        super().__init__(values, step=0.1)

    def fits(self, metric: MetricVerdict) -> bool:
        """Returns whether a metric can be drawn."""
        return metric.metric in self._names and -1 <= metric.value <= 1  # False for NaN


def _by_class(
    report: Report, by_name: Mapping[str, MetricVerdict]
) -> list[dict[str, Any]]:
    classes = report.classification
    counts: list[int] = []
    if classes:
        counts = classes.label_rows or list(map(sum, classes.confusion))
    thresholds = report.training.label_decisions if report.training else None
    kind = report.task.label_kind
    return [
        {
            "name": name,
            "rows": counts[index] if index < len(counts) else None,
            "threshold": thresholds.threshold[index] if thresholds else 0.5,
            "metrics": [
                by_name.get(class_metric(metric, name)) for metric in kind.class_metrics
            ],
        }
        for index, name in enumerate(kind.names)
    ]


def _figures(report: Report) -> dict[str, Any]:
    names = ("training", "precision_recall", "reliability", "confusion", "scores")
    others = ("abstention", "batch", "search")
    figures: dict[str, Any] = dict.fromkeys((*names, *others))
    if report.search and any(t.shown is not None for t in report.search.trials):
        search = report.search
        figures["search"] = {
            f"{search.metric} of the evaluation split by trial": search_plots.by_trial(
                search
            )
        } | {name: search_plots.by_setting(search, name) for name in search.space}
    if report.training:
        figures["training"] = curves.draw_training(report.training)
        if report.training.decision:
            figures["decision"] = plots.decision(report.training.decision)
    if report.classification:
        by_class = report.classification.precision_recall
        if by_class:
            figures["precision_recall"] = plots.precision_recall(by_class)
        figures["reliability"] = plots.reliability(report.classification)
        classes = report.task.classes or []
        if len(classes) > SMALL_MATRIX:
            figures["confusion"] = plots.confusion(report.classification, classes)
    if any(split.rows for split in report.abstention):
        figures["abstention"] = plots.abstention(
            [split for split in report.abstention if split.rows]
        )
    if report.regression and report.regression.labels:
        figures["scores"] = plots.scores(report.regression)
    if report.batch and report.batch.input_mask:
        figures["batch"] = plots.batch(report.batch)
    return figures


def _confusion(report: Report) -> list[list[tuple[int, float, int]]]:
    """Returns rows, share of the label and colour of each cell of a small matrix."""
    counts = report.classification.confusion if report.classification else []
    if not 0 < len(counts) <= SMALL_MATRIX:
        return []
    table = []
    for row in counts:
        total = sum(row) or 1
        shares = (count / total for count in row)
        table.append(
            [
                (count, share, math.ceil(share * _HEAT_LEVELS))
                for count, share in zip(row, shares, strict=True)
            ]
        )
    return table


def _confusions(report: Report) -> list[tuple[str, str, int, float]]:
    """Returns label, prediction, rows and label's share of the frequent mistakes."""
    counts = report.classification.confusion if report.classification else []
    if len(counts) <= SMALL_MATRIX:
        return []
    classes = report.task.classes or []
    mistakes = [
        (classes[label], classes[predicted], rows, rows / sum(counts[label]))
        for label, row in enumerate(counts)
        for predicted, rows in enumerate(row)
        if rows and label != predicted
    ]
    return sorted(mistakes, key=lambda m: -m[2])[:_MAX_CONFUSIONS]


def _slice_metrics(report: Report, overall: list[MetricVerdict]) -> list[str]:
    names = [metric.metric for metric in overall]
    known = {name for part in report.slices for name in part.metrics}
    first = [report.task.metric, *names]
    return [name for name in dict.fromkeys(first) if name in known]


def _labels(report: Report) -> list[tuple[str, list[tuple[int, float] | None]]]:
    """Returns the rows, and their share, of each label in each split."""
    counts = [(s.rows or 1, report.data.labels(s.name)) for s in report.splits]
    names = dict.fromkeys(name for _, labels in counts for name in labels)
    return [
        (
            name,
            [
                (labels[name], labels[name] / rows) if name in labels else None
                for rows, labels in counts
            ],
        )
        for name in names
    ]


def _rows(report: Report) -> dict[str, Any]:
    """Returns the rows as the script reads them, with indices for class names."""
    classes = report.task.classes or []
    indices = {name: index for index, name in enumerate(classes)}
    pairs = Counter((row.label, row.prediction) for row in report.worst_rows)
    return {
        "classes": [formatting.printable(name) for name in classes],
        "columns": [formatting.printable(name) for name in report.task.text_columns],
        "rows": [_row(row, indices, report.task) for row in report.worst_rows],
        "pairs": [
            [formatting.printable(label), formatting.printable(prediction), count]
            for (label, prediction), count in pairs.most_common()
        ]
        if classes
        else [],
    }


def _row(
    row: PredictedRow, indices: dict[str, int], task: TaskConfig
) -> dict[str, Any]:
    labels, predicted = (
        task.label_kind.split_names(text) for text in (row.label, row.prediction)
    )
    # The labels of the row are shown, however improbable they are.
    shown = sorted(
        row.probabilities.items(), key=lambda item: (item[0] not in labels, -item[1])
    )[:_MAX_PROBABILITIES]
    shown.sort(key=lambda item: -item[1])
    return {
        "id": row.id,
        "texts": [formatting.printable(text) for text in row.texts],
        "label": formatting.printable(row.label),
        "prediction": formatting.printable(row.prediction),
        "probabilities": [
            [
                indices[name],
                round(share, 4) if math.isfinite(share) else None,
                name in labels,
                name in predicted,
            ]
            for name, share in shown
            if name in indices
        ],
        "loss": round(row.loss, 4) if math.isfinite(row.loss) else str(row.loss),
        "tokens": [formatting.printable(token) for token in row.tokens],
        "cut": row.cut,
    }


def _serving_check(check: ServingReport) -> list[tuple[str, str]]:
    """Returns the measurements of the serving check, with units."""
    named: dict[str, tuple[str, Callable[[Any], str]]] = {
        "rows": ("Rows compared", formatting.number),
        "rows_per_second": ("Rows per second", formatting.number),
        "load_seconds": ("Time to load", formatting.duration),
        "peak_memory_bytes": ("Peak memory", formatting.size),
        "tf_serving_version": ("TensorFlow Serving version", str),
        "text_version": ("TensorFlow Text version", str),
    }
    lines = []
    for key, value in check:
        if isinstance(value, dict):
            what, unit = key.removesuffix("_ms").replace("_", " "), ""
            unit = " ms" if key.endswith("_ms") else ""
            for name, part in value.items():
                shown = (
                    formatting.number(part) if isinstance(part, float) else str(part)
                )
                lines.append((f"{what.capitalize()}, {name}", shown + unit))
        elif value is not None and key != "reasons":
            what, show = named.get(key, (key.replace("_", " ").capitalize(), str))
            lines.append((what, show(value)))
    return lines
