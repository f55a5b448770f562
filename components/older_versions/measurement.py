"""Predicts rows with older versions, each in a process, and compares the metrics."""

from __future__ import annotations

import datetime
import math
import os
import time
from collections.abc import Sequence
from typing import Any

import numpy as np
import tensorflow as tf
from tfx import types

from components.examples import read_id, read_labels, sample_records
from components.serving_check import rows as request_rows
from components.serving_check.check import check_model
from components.serving_check.request import ServingRequest, SignatureRequest
from contracts import metrics
from contracts.metrics import Rows
from contracts.records.ages import ModelAges, OlderVersion
from contracts.records.evaluation import Estimate, Evaluation
from contracts.settings.sections import Sections
from contracts.storage import uris
from contracts.task.definition import TaskConfig
from contracts.versions import exported_model, served_versions
from modules.evaluation import prediction_files, resampling

_DAY = 86_400
_SHOWN_HASH = 8


def measure(
    settings: Sections,
    splitting: dict[str, Any] | None,
    examples: types.Artifact,
    model_run: str,
    versions: Sequence[str],
) -> ModelAges:
    """Measures versions on the evaluated split.

    Args:
      settings: The task, the split, the most rows, and the limits of a process.
      splitting: How the data were split; None if that does not matter.
      examples: The Examples.
      model_run: Directory of the `ModelRun`, with the predictions of the new model.
      versions: Directories of older versions, the newest first.
    """
    task, split = settings.task, settings.evaluator.gate_split
    ages = ModelAges(metric=task.metric, split=split)
    if not versions:
        return ages
    records = sample_records(examples, split, settings.evaluator.older_version_rows)
    labels = read_labels(records, task)
    parsed = map(tf.train.Example.FromString, records)
    ids = np.array([read_id(example, task.id_column) for example in parsed])
    encoded = [request_rows.encode(record) for record in records]
    request = ServingRequest(
        settings=settings,
        ids=ids.tolist(),
        signatures=[
            SignatureRequest(
                name=exported_model.SERVE_EXAMPLES,
                inputs={exported_model.EXAMPLES: encoded},
                output=task.label_kind.output,
                width=len(task.label_kind.names) or None,
                expected=None,
                timed=False,
            )
        ],
    )
    new = _predicted_rows(model_run, task, split, ids)
    ages.rows = len(records)
    ages.measured = None if new is None else _estimate(task, new)
    slow = ""
    for path in versions:
        version = OlderVersion(version=os.path.basename(path))
        ages.versions.append(version)
        if slow:
            version.problem = f"version {slow} took all of serving.timeout_seconds"
            continue
        start = time.monotonic()
        try:
            evaluation = _describe(version, path)
            if splitting is not None and (
                evaluation is None or splitting != evaluation.splitting
            ):
                version.problem = (
                    "its data were split by other settings of data, or by an older "
                    "release, so that it may have trained on the evaluated rows"
                )
                continue
            served_versions.verify(path)
            expected = exported_model.describe_task(task)
            if difference := exported_model.find_task_difference(path, expected):
                version.problem = f"another task: {difference}"
                continue
            report, predictions = check_model(path, request)
        except served_versions.VersionError as error:
            version.problem = error.sentence()
            continue
        except (OSError, RuntimeError, ValueError, tf.errors.OpError) as error:
            version.problem = f"{type(error).__name__}: {error}"
            continue
        if time.monotonic() - start >= settings.serving.timeout_seconds:
            slow = version.version
        if report.reasons:
            version.problem = "; ".join(report.reasons)
            continue
        ((_, outputs),) = predictions.items()
        values = np.asarray(outputs["values"], float)
        exported = exported_model.read_description(path) or {}
        threshold = exported.get(exported_model.THRESHOLD)
        old = Rows.of(labels, values, threshold=threshold)
        version.measured = _estimate(task, old)
        if new is not None:
            version.paired = resampling.paired_test(task, old, new, task.metric)
    return ages


def _predicted_rows(
    model_run: str, task: TaskConfig, split: str, ids: np.ndarray
) -> Rows | None:
    """Returns the new model's predictions of rows; None without unique ids."""
    recorded = prediction_files.read_predictions(model_run, task, split)
    index = {row: number for number, row in enumerate(recorded.ids.tolist())}
    is_unique = len(index) == len(recorded.ids) and len(np.unique(ids)) == len(ids)
    if not (is_unique and index.keys() >= set(ids.tolist())):
        return None
    order = np.array([index[row] for row in ids.tolist()])
    return recorded.rows.take(order)


def _estimate(task: TaskConfig, rows: Rows) -> Estimate:
    (value,) = metrics.compute(task.classes, rows, [task.metric]).values()
    interval = resampling.confidence_intervals(task, rows)[task.metric]
    return Estimate(value=value, interval=None if math.isnan(interval[0]) else interval)


def _describe(version: OlderVersion, path: str) -> Evaluation | None:
    """Adds the age of a version and its data; returns its evaluation, if recorded."""
    pushed = served_versions.numbered_time(version.version)
    if pushed is None and uris.is_local(path):
        pushed = served_versions.push_time(path)
    if pushed is not None:
        utc = datetime.timezone.utc
        version.pushed = datetime.datetime.fromtimestamp(pushed, utc).isoformat(
            "T", "seconds"
        )
        version.age_days = (time.time() - pushed) / _DAY
    recorded = served_versions.read_evaluation(path)
    if recorded is None:
        return None
    evaluation = Evaluation.model_validate(recorded)
    version.data = f"{evaluation.data} ({evaluation.data_version[:_SHOWN_HASH]})"
    return evaluation
