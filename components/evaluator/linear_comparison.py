"""A linear model on words, trained and evaluated on the splits of the model."""

from __future__ import annotations

import hashlib
import heapq
import itertools
from collections.abc import Iterable, Iterator, Sequence

import numpy as np
import tensorflow as tf
from tfx import types

from components.evaluator import verdict
from components.examples import read_id, read_records, read_values
from modules import metrics
from modules.config.run_settings import RunSettings
from modules.config.task import TOKENIZED_FEATURES, TRAIN_SPLIT, TaskConfig
from modules.data.words import split_words
from modules.evaluation import linear_model, prediction_files, resampling
from modules.evaluation.linear_model import LinearModel, Words
from modules.metrics import Rows
from modules.verdicts import LinearComparison, MetricVerdict

_PREDICTED_ROWS = 1000  # at a time


def compare(
    run: RunSettings,
    examples: types.Artifact,
    model_run: str,
    evaluated: Iterable[MetricVerdict],
    significance: float,
) -> tuple[LinearComparison, list[str]]:
    """Trains a linear model, and compares the model with it.

    Args:
      run: The task, and the evaluated split.
      examples: The Examples of all splits.
      model_run: Directory of the `ModelRun`, with the predictions of the model.
      evaluated: The metrics of the model on the evaluated split.
      significance: As in `verdict.find_worse`.

    Returns:
      The comparison, and why the model is worse; empty if it may not be.
    """
    task, split = run.task, run.gate_split
    # A sample of all rows, the same for any order of the records and of the files.
    records = heapq.nsmallest(
        linear_model.most_rows(task),
        read_records(examples, TRAIN_SPLIT),
        key=lambda record: hashlib.blake2b(record, digest_size=8).digest(),
    )
    labels = _column(records, task.label_column)
    weights = _column(records, task.weight_column) if task.weight_column else None
    model = LinearModel(task, _words(records, task), labels, weights)
    others = read_records(examples, split)
    parts = []
    while batch := list(itertools.islice(others, _PREDICTED_ROWS)):
        ids = np.array([read_id(e, task.id_column) for e in _parse(batch)])
        outputs = model.predict(_words(batch, task))
        parts.append((ids, _column(batch, task.label_column), outputs))
    ids, labels, outputs = map(np.concatenate, zip(*parts, strict=True))
    rows = Rows.of(labels, outputs)
    test, reasons = None, []
    recorded = prediction_files.read_predictions(model_run, task, split)
    order, recorded_order = np.argsort(ids), np.argsort(recorded.ids)
    has_unique_ids = len(np.unique(ids)) == len(ids)
    if has_unique_ids and np.array_equal(ids[order], recorded.ids[recorded_order]):
        of_model = recorded.rows.take(recorded_order)
        test = resampling.paired_test(task, rows.take(order), of_model, task.metric)
        other = f"that of a linear model on words, trained on {len(records):,} rows"
        reason = verdict.find_reason(test, other, significance)
        if reason:
            reasons.append(
                f"{reason}, on {test.rows:,} rows; check the labels and the settings "
                "of the trainer, or set evaluator.linear_model to report"
            )
    comparison = LinearComparison(
        metric=task.metric,
        value=next(m.value for m in evaluated if m.metric == task.metric),
        metrics=metrics.compute(task.classes, rows),
        rows=len(records),
        paired=test.model_dump(mode="json") if test else None,
    )
    return comparison, reasons


def _parse(records: Sequence[bytes]) -> Iterator[tf.train.Example]:
    return map(tf.train.Example.FromString, records)


def _column(records: Sequence[bytes], column: str) -> np.ndarray:
    """Returns the values of a column with one value in each row, float64[rows]."""
    values = (value for e in _parse(records) for value in read_values(e, column))
    return np.fromiter(values, float, len(records))


def _words(records: Sequence[bytes], task: TaskConfig) -> Iterator[Words]:
    """Yields the words of each row; the tokens if the task is tokenized."""
    for example in _parse(records):
        if task.is_tokenized:
            columns = (read_values(example, name) for name in TOKENIZED_FEATURES)
            tokens = [(i, s) for i, mask, s in zip(*columns, strict=True) if mask]
            yield [
                [str(token) for token, segment in tokens if segment == index]
                for index in range(len(task.text_columns))
            ]
        else:
            texts = (read_values(example, column) for column in task.text_columns)
            yield [
                split_words(b"".join(text).decode("utf-8", "replace")) for text in texts
            ]
