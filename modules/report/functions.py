"""What components call by this module's path: they report a run, or refused data."""

from __future__ import annotations

import datetime
import math
import os
from collections.abc import Mapping
from typing import Any, NamedTuple

from modules import fingerprint, run_states, verdicts
from modules.config.task import TaskConfig
from modules.evaluation import prediction_files, resampling
from modules.export import model_digest
from modules.report import content, model_card, page
from modules.report.content import Metric, Report
from modules.report.data_part import read_data
from modules.report.predictions_part import (
    classification,
    majority_metrics,
    regression,
    worst_rows,
)
from modules.report.training_part import read_batch, read_training

_TRAIN = "train"
_NOT_SHOWN = ("example_count",)
_VERSION_LENGTH = 16  # characters of a hash


class ReportFiles(NamedTuple):
    """A report as files.

    Attributes:
      numbers: `report.json`.
      page: `report.html`.
    """

    numbers: str
    page: str


def describe_run(facts: Mapping[str, Any], settings: Mapping[str, Any]) -> ReportFiles:
    """Reports a run that trained a model.

    Args:
      facts: What the run made: `statistics` (file by split), `data_verdict`,
        `examples` (pattern of the gate's split), `model_run` (directory), `verdict`
        (of the Evaluator, with `comparison` and `failures`), `slices`,
        `serving_check`, `pushed` (directory or None), `withdrawn` (the version of this
        model that was rolled back, or empty), `components`, and `hyperparameters`,
        which replace the recipe's.
      settings: `pipeline` (its name), `task`, `gate_split`, `max_seq_length`,
        `vocab_file`, `recipe`, and the `lineage` between data and model.
    """
    task = TaskConfig.model_validate(settings["task"])
    report = _begin(task, facts, settings)
    report.settings = {**settings["recipe"], "trainer": facts["hyperparameters"]}
    report.components = [content.ComponentTime(**each) for each in facts["components"]]
    report.training = read_training(facts["model_run"])
    report.batch = read_batch(facts["model_run"])
    report.slices = [content.Slice(**each) for each in facts["slices"]]
    report.serving_check = facts["serving_check"]
    report.pushed = facts["pushed"]
    report.champion = facts["verdict"]["champion"]
    report.comparison = facts["verdict"]["comparison"]
    report.lineage += [
        *(content.LineageStep(**step) for step in settings["lineage"]),
        _libraries_step(),
        _model_step(facts["model_run"], facts["pushed"]),
    ]
    _add_predictions(report, facts, settings)
    if report.pushed is not None:
        report.outcome = run_states.PUSHED
        version = os.path.basename(report.pushed)
        report.verdict = f"The model is pushed as version {version}."
    else:
        report.reasons = verdicts.refusal(
            facts["verdict"]["failures"],
            facts["serving_check"]["reasons"],
            facts["withdrawn"],
        )
        report.verdict = "The model is refused; what was served before is still served."
    return _write(report)


def describe_refused_data(
    facts: Mapping[str, Any], settings: Mapping[str, Any]
) -> ReportFiles:
    """Reports data that DataGate refuses.

    Args:
      facts: `statistics` (file by split) and `data_verdict`, with its `problems`.
      settings: `pipeline`, `task`, `gate_split` and `max_seq_length`.
    """
    task = TaskConfig.model_validate(settings["task"])
    report = _begin(task, facts, settings)
    report.outcome = run_states.DATA_REFUSED
    report.reasons = facts["data_verdict"]["problems"]
    report.verdict = "The data are refused; nothing was trained."
    return _write(report)


def write_card(files: ReportFiles, previous: str | None) -> str:
    """Returns the model card of a run.

    Args:
      files: The report of the run.
      previous: The last card, whose fields that a person filled in are kept.
    """
    return model_card.render(Report.model_validate_json(files.numbers), previous)


def _begin(
    task: TaskConfig, facts: Mapping[str, Any], settings: Mapping[str, Any]
) -> Report:
    data = read_data(
        facts["statistics"], facts["data_verdict"], task, settings["max_seq_length"]
    )
    return Report(
        pipeline=settings["pipeline"],
        created=datetime.datetime.now(datetime.timezone.utc).isoformat("T", "seconds"),
        outcome=run_states.REFUSED,
        verdict="",
        reasons=[],
        task=task,
        split=settings["gate_split"],
        data=data,
        lineage=[_data_step(data.card)],
    )


def _add_predictions(
    report: Report, facts: Mapping[str, Any], settings: Mapping[str, Any]
) -> None:
    task = report.task
    predictions = prediction_files.read_predictions(
        facts["model_run"], task, report.split
    )
    _, labels, outputs = predictions
    counts = {split.name: split.labels for split in report.data.splits}
    majority = majority_metrics(task, labels, counts.get(_TRAIN, {}))
    intervals = resampling.confidence_intervals(task, labels, outputs)
    report.metrics = [
        Metric(
            name=row["metric"],
            value=float(row["value"]),
            interval=_known(intervals.get(row["metric"])),
            majority=majority.get(row["metric"]),
            champion=row["champion"] and float(row["champion"]),
            threshold=row["threshold"],
            max_regression=row["max_regression"],
            failures=row["failures"],
        )
        for row in facts["verdict"]["metrics"]
        if row["metric"] not in _NOT_SHOWN
    ]
    # Those of one class last; within both, those with bounds are first already.
    report.metrics.sort(key=lambda metric: "/" in metric.name)
    if task.is_regression:
        report.regression = regression(labels, outputs)
    else:
        report.classification = classification(task, labels, outputs)
    report.worst_rows = worst_rows(
        task,
        *predictions,
        examples=facts["examples"],
        vocab_file=settings["vocab_file"],
        max_seq_length=settings["max_seq_length"],
    )


def _known(interval: tuple[float, float] | None) -> tuple[float, float] | None:
    return None if interval is None or math.isnan(interval[0]) else interval


def _data_step(card: Mapping[str, Any]) -> content.LineageStep:
    return content.LineageStep(
        kind="data",
        name=os.path.basename(card["source"].rstrip("/")),
        version=card["fingerprint"] or "unknown",
        uri=card["source"],
    )


def _libraries_step() -> content.LineageStep:
    versions = fingerprint.library_versions(fingerprint.TRAINER_LIBRARIES)
    return content.LineageStep(
        kind="libraries",
        name="TensorFlow",
        version=versions["tensorflow"],
        details=versions,
    )


def _model_step(model_run: str, pushed: str | None) -> content.LineageStep:
    model = model_digest.read(model_run)
    return content.LineageStep(
        kind="model",
        name=os.path.basename(pushed) if pushed else "not pushed",
        version=model.graph[:_VERSION_LENGTH],
        uri=pushed or model.uri,
    )


def _write(report: Report) -> ReportFiles:
    return ReportFiles(report.model_dump_json(indent=1), page.render(report))
