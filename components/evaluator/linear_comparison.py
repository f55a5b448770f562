"""A linear model on words, trained and evaluated on the splits of the model."""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterable, Iterator, Mapping, Sequence

import numpy as np
import tensorflow as tf
from tfx import types

from components.evaluator import verdict
from components.evaluator.slices import SliceKey
from components.examples import (
    read_column,
    read_id,
    read_labels,
    read_records,
    read_values,
    sample_records,
)
from contracts import metrics, wording
from contracts.errors import named
from contracts.metrics import Rows
from contracts.records.evaluation import (
    LinearComparison,
    MetricVerdict,
    PairedTest,
)
from contracts.settings.sections import Sections
from contracts.task.definition import (
    EVAL_SPLIT,
    TOKENIZED_FEATURES,
    TRAIN_SPLIT,
    TaskConfig,
)
from modules.data import slice_columns, slice_sizes, slicing
from modules.data.slice_sizes import Counts
from modules.data.words import split_words
from modules.evaluation import linear_model, prediction_files, resampling
from modules.evaluation.decision import find_threshold
from modules.evaluation.linear_model import LinearModel, Words

_PREDICTED_ROWS = 1000  # at a time


def compare(
    settings: Sections,
    examples: types.Artifact,
    model_run: str,
    evaluated: Iterable[MetricVerdict],
    significance: float,
) -> tuple[LinearComparison, dict[SliceKey, float], list[str]]:
    """Trains a linear model, and compares the model with it on all rows and in slices.

    Both predict as `task.decision` says: the model as it is exported, and the linear
    model with a threshold that is chosen on `eval`, too. Without a decision, both
    predict the most probable class.

    A slice is tested as one of a champion and the model is, if it has the least number
    of rows that the metric counts, and if the model is not worse on all rows.

    Args:
      settings: The task, the evaluated split, and its slices.
      examples: The Examples of all splits.
      model_run: Directory of the `ModelRun`, with the predictions of the model.
      evaluated: The metrics of the model on the evaluated split.
      significance: As in `verdict.find_worse`.

    Returns:
      The comparison, the linear model's finite metrics of the task by slice, which are
      empty without a test, and why the model is worse; empty if it may not be.
    """
    task, split = settings.task, settings.evaluator.gate_split
    records = sample_records(examples, TRAIN_SPLIT, linear_model.most_rows(task))
    labels = read_labels(records, task)
    weights = read_column(records, task.weight_column) if task.weight_column else None
    model = LinearModel(task, _words(records, task), labels, weights)
    batches, slices = [], dict[str, list[str]]()
    for batch, *predicted in _predict(model, read_records(examples, split), task):
        ids = np.array([read_id(e, task.id_column) for e in _parse(batch)])
        batches.append((ids, *predicted))
        for feature, values in _slice(batch, task, settings.data.slice_columns):
            slices.setdefault(feature, []).extend(values)
    ids, labels, outputs = map(np.concatenate, zip(*batches, strict=True))
    threshold = None
    if task.decision:
        eval_labels, eval_outputs = labels, outputs
        if split != EVAL_SPLIT:
            sample = sample_records(examples, EVAL_SPLIT, linear_model.most_rows(task))
            _, *columns = zip(*_predict(model, sample, task), strict=True)
            eval_labels, eval_outputs = map(np.concatenate, columns)
        threshold = find_threshold(
            task.decision, eval_labels, eval_outputs, task.classes or ()
        )
    rows = Rows.of(labels, outputs, threshold=threshold)
    test, reasons, linear_values = None, [], dict[SliceKey, float]()
    recorded = prediction_files.read_predictions(model_run, task, split)
    order, recorded_order = np.argsort(ids), np.argsort(recorded.ids)
    has_unique_ids = len(np.unique(ids)) == len(ids)
    if has_unique_ids and np.array_equal(ids[order], recorded.ids[recorded_order]):
        linear, own = rows.take(order), recorded.rows.take(recorded_order)
        test = resampling.paired_test(task, linear, own, task.metric)
        parts = {
            (feature, value): np.flatnonzero(np.array(values, object)[order] == value)
            for feature, values in slices.items()
            for value in sorted(set(values))
        }
        min_rows = settings.evaluator.min_slice_rows
        linear_values, tests = compare_slices(task, linear, own, parts, min_rows)
        count = wording.count(len(records), "row")
        other = f"that of a linear model on words, trained on {count}"
        if reason := verdict.find_reason(test, other, significance):
            advice = "check the labels and the settings of the trainer"
            reasons = [f"{reason}, on {wording.count(test.rows, 'row')}; {advice}"]
        else:
            worse = verdict.find_worse_slices(tests, "a linear model's", significance)
            advice = f"add such rows to {TRAIN_SPLIT}, check their labels"
            reasons = [f"{reason}; {advice}" for reason in worse]
        reasons = [
            named(
                f"{reason}, or set evaluator.linear_model to report",
                "E-worse-than-linear-model",
            )
            for reason in reasons
        ]
    comparison = LinearComparison(
        metric=task.metric,
        value=next(m.value for m in evaluated if m.metric == task.metric),
        metrics=metrics.compute(task.classes, rows),
        rows=len(records),
        paired=test,
    )
    return comparison, linear_values, reasons


def compare_slices(
    task: TaskConfig,
    linear: Rows,
    model: Rows,
    slices: Mapping[tuple[str, str], np.ndarray],
    min_rows: int,
) -> tuple[dict[SliceKey, float], dict[SliceKey, PairedTest]]:
    """Compares a model with a linear one in slices.

    Args:
      task: Has the metric.
      linear: The predictions of the linear model.
      model: Those of the model on the same rows.
      slices: The indices of the rows by feature and value.
      min_rows: A slice with fewer rows that the metric counts is not tested.

    Returns:
      The linear model's metric in each slice where it is finite, and the tests.
    """
    values, tests, name = {}, {}, task.metric
    for (feature, value), chosen in slices.items():
        a, b = linear.take(chosen), model.take(chosen)
        key: SliceKey = ((feature, value),)
        metric = metrics.compute(task.classes, a, [name])[name]
        if math.isfinite(metric):
            values[key] = metric
        counts: Counts = {}
        for label in a.labels.tolist():
            slice_sizes.count_row(counts, value, label, task)
        rows, _ = slice_sizes.count_deciding(name, counts[value], task)
        if rows >= min_rows:
            tests[key] = resampling.paired_test(task, a, b, name)
    return values, tests


def _predict(
    model: LinearModel, records: Iterable[bytes], task: TaskConfig
) -> Iterator[tuple[list[bytes], np.ndarray, np.ndarray]]:
    """Yields serialized Examples, their labels and the model's outputs, in batches."""
    remaining = iter(records)
    while batch := list(itertools.islice(remaining, _PREDICTED_ROWS)):
        yield batch, read_labels(batch, task), model.predict(_words(batch, task))


def _parse(records: Sequence[bytes]) -> Iterator[tf.train.Example]:
    return map(tf.train.Example.FromString, records)


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


def _slice(
    records: Sequence[bytes], task: TaskConfig, columns: Sequence[str]
) -> Iterator[tuple[str, list[str]]]:
    """Yields each feature that an evaluation is sliced by, and its value in each row.

    Args:
      records: Serialized Examples.
      task: Determines the features that every evaluation is sliced by.
      columns: Columns to slice by, besides these features.
    """
    examples = list(_parse(records))
    if task.is_tokenized:
        _, mask, _ = TOKENIZED_FEATURES
        lengths = [sum(read_values(example, mask)) for example in examples]
        tokens = tf.RaggedTensor.from_row_lengths(tf.zeros(sum(lengths)), lengths)
        features = slicing.slice_tokens(tokens)
    else:
        texts = [
            tf.constant([b"".join(read_values(e, column)) for e in examples])
            for column in task.text_columns
        ]
        features = slicing.slice_texts(*texts)
    for name, values in features.items():
        yield task.own_name(name), [value.decode() for value in values.numpy()]
    for column in columns:
        yield column, [slice_columns.read_value(e, column) for e in examples]
