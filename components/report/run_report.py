"""The report of a run that trained a model, from its artifacts."""

from __future__ import annotations

import math
import os
from collections.abc import Mapping
from typing import Any

from components.report.settings import ReportSettings
from modules import fingerprint, run_states, verdicts
from modules.config.task import TaskConfig
from modules.evaluation import prediction_files, resampling
from modules.evaluation.tfma_metrics import EXAMPLE_COUNT
from modules.export import model_digest
from modules.metrics import Rows
from modules.report import content, predictions_part
from modules.report.data_part import begin_report
from modules.report.training_part import read_batch, read_training
from modules.verdicts import DataVerdict, Verdict

_TRAIN = "train"
_VERSION_LENGTH = 16  # characters of a hash


def describe_run(
    settings: ReportSettings,
    *,
    statistics: Mapping[str, str],
    data_verdict: DataVerdict,
    examples: str,
    hyperparameters: dict[str, Any],
    model_run: str,
    verdict: Verdict,
    slices: list[dict[str, Any]],
    serving_check: dict[str, Any],
    pushed: str | None,
    withdrawn: str,
    components: list[dict[str, Any]],
) -> content.Report:
    """Returns the report of a run.

    Args:
      settings: What was fixed when the pipeline was compiled.
      statistics: File of TFDV's statistics by split.
      data_verdict: DataGate's.
      examples: Pattern of the Examples of the split that decides.
      hyperparameters: The training settings, which replace those of the recipe.
      model_run: Directory of the Trainer's `ModelRun`.
      verdict: The Evaluator's.
      slices: The fields of each `content.Slice`.
      serving_check: ServingCheck's report.
      pushed: Directory that the model is served from; None if it was refused.
      withdrawn: The version of this model that was rolled back, or empty.
      components: The fields of each `content.ComponentTime`.
    """
    task, split = settings.run.task, settings.run.gate_split
    report = begin_report(
        settings.run,
        data_verdict,
        statistics,
        **_conclude(verdict, serving_check, pushed, withdrawn),
    )
    report.settings = {**settings.recipe, "trainer": hyperparameters}
    report.components = [content.ComponentTime(**each) for each in components]
    report.training = read_training(model_run)
    report.batch = read_batch(model_run)
    report.slices = [content.Slice(**each) for each in slices]
    report.serving_check = serving_check
    report.pushed = pushed
    report.champion = verdict.champion
    report.comparison = verdict.comparison
    report.lineage += [
        *settings.lineage,
        _libraries_step(),
        _model_step(model_run, pushed),
    ]
    predictions = prediction_files.read_predictions(model_run, task, split)
    _, labels, outputs = predictions
    counts = {split.name: split.labels for split in report.data.splits}
    report.metrics = _metrics(task, verdict, labels, outputs, counts.get(_TRAIN, {}))
    if task.is_regression:
        report.regression = predictions_part.regression(labels, outputs)
    else:
        report.classification = predictions_part.classification(task, labels, outputs)
    report.worst_rows = predictions_part.worst_rows(
        task,
        *predictions,
        examples=examples,
        vocab_file=settings.vocab_file,
        max_seq_length=settings.run.max_seq_length,
    )
    return report


def _conclude(
    verdict: Verdict, serving_check: dict[str, Any], pushed: str | None, withdrawn: str
) -> dict[str, Any]:
    """Returns the arguments of `begin_report` on how the run ended."""
    if pushed is not None:
        return {
            "outcome": run_states.PUSHED,
            "conclusion": f"The model is pushed as version {os.path.basename(pushed)}.",
            "reasons": [],
        }
    return {
        "outcome": run_states.REFUSED,
        "conclusion": "The model is refused; what was served before is still served.",
        "reasons": verdicts.refusal(
            verdict.failures, serving_check["reasons"], withdrawn
        ),
    }


def _metrics(
    task: TaskConfig,
    verdict: Verdict,
    labels: Any,
    outputs: Any,
    train_labels: dict[str, float],
) -> list[content.Metric]:
    majority = predictions_part.majority_metrics(task, labels, train_labels)
    rows = Rows.of(labels, outputs)
    intervals = resampling.confidence_intervals(task, rows)
    metrics = [
        content.Metric(
            name=metric.metric,
            value=metric.value,
            interval=_known(intervals.get(metric.metric)),
            majority=majority.get(metric.metric),
            champion=metric.champion,
            threshold=metric.threshold,
            max_regression=metric.max_regression,
            failures=metric.failures,
        )
        for metric in verdict.metrics
        if metric.metric != EXAMPLE_COUNT
    ]
    # Those of one class last; within both, those with bounds are first already.
    return sorted(metrics, key=lambda metric: "/" in metric.name)


def _known(interval: tuple[float, float] | None) -> tuple[float, float] | None:
    return None if interval is None or math.isnan(interval[0]) else interval


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
