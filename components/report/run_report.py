"""The report of a run that trained a model, from its artifacts."""

from __future__ import annotations

import math
import os
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from components.serving_check import PermutedColumns, SwappedText
from contracts import fingerprint, run_states, verdicts
from contracts.commits import Commits
from contracts.metrics import Rows, Threshold
from contracts.settings.sections import Sections
from contracts.task.definition import TRAIN_SPLIT, TaskConfig
from contracts.verdicts import DataVerdict, ModelAges, Verdict
from contracts.versions import model_digest
from modules.evaluation import prediction_files, resampling
from modules.evaluation.tfma_metrics import EXAMPLE_COUNT
from report import columns_part, content, formatting, predictions_part
from report.data_part import begin_report
from report.search_part import read_search
from report.training_part import read_batch, read_training


def describe_run(
    settings: Sections,
    *,
    recipe: dict[str, Any],
    vocab_file: str,
    lineage: list[dict[str, Any]],
    statistics: Mapping[str, str],
    data_verdict: DataVerdict,
    examples: str,
    hyperparameters: dict[str, Any],
    search: str | None,
    model_run: str,
    verdict: Verdict,
    slices: list[dict[str, Any]],
    serving_check: dict[str, Any],
    permuted: PermutedColumns | None,
    swapped: Mapping[str, Sequence[SwappedText]],
    ages: ModelAges | None,
    pushed: str | None,
    withdrawn: str,
    commits: str,
    components: list[dict[str, Any]],
) -> content.Report:
    """Returns the report of a run.

    Args:
      settings: The settings of the run.
      recipe: The settings that affect a run's results, by section.
      vocab_file: One token a line. Its encoder's settings are next to it.
      lineage: The fields of each step between the data and the model.
      statistics: File of TFDV's statistics by split.
      data_verdict: DataGate's.
      examples: Pattern of the Examples of `evaluator.split`.
      hyperparameters: The training settings, which replace those of the recipe.
      search: Directory of what the Tuner found; None without a search.
      model_run: Directory of the Trainer's `ModelRun`.
      verdict: The Evaluator's.
      slices: The result of `read_slices`.
      serving_check: ServingCheck's report.
      permuted: ServingCheck's predictions without each column of a pair, or None.
      swapped: ServingCheck's rows that swapped words change most, by list.
      ages: OlderVersions' result; None if the recipe measures none.
      pushed: Directory that serves the model; None if it was refused.
      withdrawn: The model's version if it was rolled back, or empty.
      commits: JSON of the `Commits` of the run that pushed or refused the model; empty
        if they are unknown.
      components: The fields of each `content.ComponentTime`.
    """
    task, split = settings.task, settings.evaluator.gate_split
    if pushed is not None:
        outcome = run_states.PUSHED
        conclusion = f"The model is pushed as version {os.path.basename(pushed)}."
        reasons = []
    else:
        outcome = run_states.REFUSED
        conclusion = "The model is refused; the served version is unchanged."
        reasons = verdicts.refusal(
            verdict.failures, serving_check["reasons"], withdrawn
        )
    report = begin_report(
        settings,
        data_verdict,
        statistics,
        outcome=outcome,
        conclusion=conclusion,
        reasons=reasons,
    )
    report.settings = {**recipe, "trainer": hyperparameters}
    report.components = [content.ComponentTime(**fields) for fields in components]
    if search is not None:
        space = recipe["tuner"]["space"]
        report.search = read_search(search, task.metric, space)
    report.training = read_training(model_run)
    for name in ("epochs", "batch_size"):
        if name in hyperparameters:
            fact = name.replace("_", " ")
            report.training.facts[fact] = f"{hyperparameters[name]:,}"
    threshold = report.training.threshold
    report.batch = read_batch(model_run)
    report.slices = [_slice(entry, verdict) for entry in slices]
    min_rows = settings.evaluator.min_slice_rows
    report.slice_gaps = _find_gaps(report.slices, task.metric, min_rows)
    report.swapped_words = [
        content.SwappedWords(
            **part,
            largest=[
                _swapped_row(task, row, threshold) for row in swapped[part["name"]]
            ],
        )
        for part in serving_check["group_words"]
    ]
    report.serving_check = serving_check
    report.pushed = pushed
    report.champion = verdict.champion
    report.comparison = verdict.comparison
    linear_model = verdict.linear_model
    report.linear_model = linear_model.sentence if linear_model else ""
    report.ages = ages if ages and ages.versions else None
    libraries = fingerprint.library_versions(fingerprint.TRAINER_LIBRARIES)
    model = model_digest.read(model_run)
    if commits:
        report.commits = Commits.model_validate_json(commits)
        report.lineage += [
            content.LineageStep(
                kind="commit",
                name=name.removeprefix("the "),
                version=commit.id,
                details={"changed": ", ".join(commit.changes)}
                if commit.changes
                else {},
            )
            for name, commit in report.commits.parts.items()
            if commit
        ]
    report.lineage += [
        *(content.LineageStep(**fields) for fields in lineage),
        content.LineageStep(
            kind="libraries",
            name="TensorFlow",
            version=libraries["tensorflow"],
            details=libraries,
        ),
        content.LineageStep(
            kind="model",
            name=os.path.basename(pushed) if pushed else "not pushed",
            version=model.graph[:16],
            uri=pushed or model.uri,
        ),
    ]
    predictions = prediction_files.read_predictions(model_run, task, split)
    _, labels, outputs, predicted = predictions
    counts = {split.name: split.labels for split in report.data.splits}
    train_labels = counts.get(TRAIN_SPLIT, {})
    report.metrics = _metrics(task, verdict, predictions.rows, train_labels)
    sections = task.label_kind.sections
    if "regression" in sections:
        report.regression = predictions_part.regression(labels, outputs)
    if "classification" in sections:
        scaling = report.training.calibration
        report.classification = predictions_part.classification(
            task,
            labels,
            outputs,
            predicted,
            temperature=scaling.temperature if scaling else None,
        )
    for name in report.training.splits if "abstention" in sections else ():
        recorded = (
            predictions
            if name == split
            else prediction_files.read_predictions(model_run, task, name)
        )
        part = predictions_part.describe_abstention(name, recorded)
        report.abstention.append(part)
    if permuted is not None:
        report.text_columns = columns_part.describe_columns(
            task,
            permuted.examples,
            permuted.outputs,
            permuted.permuted,
            threshold=threshold,
            vocab_file=vocab_file,
            packing=settings.preprocessing,
            latency=serving_check.get("latency_of_columns_ms", {}),
        )
    report.worst_rows = predictions_part.worst_rows(
        task,
        *predictions[:3],
        predicted=predictions.predicted,
        examples=examples,
        vocab_file=vocab_file,
        packing=settings.preprocessing,
    )
    return report


def _slice(entry: dict[str, Any], verdict: Verdict) -> content.Slice:
    name = (entry["feature"], entry["value"])
    judged = [m for m in verdict.slices if (m.feature, m.feature_value) == name]
    linear = verdict.linear_model.slices if verdict.linear_model else []
    return content.Slice(
        **entry,
        linear=next(
            (s.linear for s in linear if (s.feature, s.feature_value) == name), None
        ),
        thresholds={m.metric: m.threshold for m in judged if m.threshold is not None},
        failed=[metric.metric for metric in judged if metric.failures],
    )


def _find_gaps(
    slices: Sequence[content.Slice], metric: str, min_rows: int
) -> list[content.SliceGap]:
    gaps = []
    for feature in dict.fromkeys(part.feature for part in slices):
        parts = [
            part
            for part in slices
            if part.feature == feature
            and part.rows >= min_rows
            and metric in part.metrics
        ]
        if len(parts) > 1:
            parts.sort(key=lambda part: part.metrics[metric])
            gap = content.SliceGap(feature=feature, lowest=parts[0], highest=parts[-1])
            gaps.append(gap)
    return gaps


def _swapped_row(
    task: TaskConfig, row: SwappedText, threshold: Threshold
) -> content.SwappedRow:
    kind = task.label_kind
    outputs = np.array([row.output, row.swapped_output])
    predicted = kind.predict(outputs, threshold)
    before, after = (formatting.label(kind.describe(label)) for label in predicted)
    probability, swapped_probability = kind.probabilities_of(outputs, predicted[0])
    return content.SwappedRow(
        id=row.id,
        texts=row.texts,
        swapped=row.swapped,
        prediction=before,
        swapped_prediction=after,
        probability=probability,
        swapped_probability=swapped_probability,
    )


def _metrics(
    task: TaskConfig,
    verdict: Verdict,
    rows: Rows,
    train_labels: dict[str, float],
) -> list[content.Metric]:
    majority = task.label_kind.majority_metrics(rows.labels, train_labels, task.metric)
    linear = verdict.linear_model.metrics if verdict.linear_model else {}
    intervals = {
        name: ends
        for name, ends in resampling.confidence_intervals(task, rows).items()
        if not math.isnan(ends[0])
    }
    metrics = [
        content.Metric(
            name=metric.metric,
            value=metric.value,
            interval=intervals.get(metric.metric),
            majority=majority.get(metric.metric),
            linear=linear.get(metric.metric),
            champion=metric.champion,
            threshold=metric.threshold,
            max_regression=metric.max_regression,
            failures=metric.failures,
        )
        for metric in verdict.metrics
        if metric.metric != EXAMPLE_COUNT
    ]
    # Metrics of one class come last. The sort keeps those with bounds first.
    return sorted(metrics, key=lambda metric: "/" in metric.name)
