"""A linear model on words, trained and evaluated on the splits of the model."""

from __future__ import annotations

import itertools
from collections.abc import Iterator

import numpy as np
import tensorflow as tf
from tfx import types
from tfx.types import artifact_utils

from components.examples import read_id, read_values
from modules import files, metrics, uris, verdicts
from modules.config.settings import Settings
from modules.config.task import TOKENIZED_FEATURES, TRAIN_SPLIT, TaskConfig
from modules.evaluation import linear_model, prediction_files, resampling
from modules.evaluation.linear_model import LinearModel, Words
from modules.metrics import Rows

_PREDICTED_ROWS = 10_000


class BaselineSettings(Settings):
    """The settings of the comparison with a linear model.

    Attributes:
      task: The task definition.
      split: `evaluator.split`.
      margin: `evaluator.baseline_margin`.
    """

    task: TaskConfig
    split: str
    margin: float | None


def compare(
    settings: BaselineSettings, examples: types.Artifact, model_run: str, value: float
) -> verdicts.Baseline:
    """Trains a linear model, and compares the model with it.

    Args:
      settings: The task, and the evaluated split.
      examples: The Examples of all splits.
      model_run: Directory of the `ModelRun`, with the predictions of the model.
      value: The metric of the task on the evaluated split.
    """
    task = settings.task
    training = itertools.islice(
        _read(examples, TRAIN_SPLIT, task), linear_model.most_rows(task)
    )
    words, labels, _ = zip(*training, strict=True)
    model = LinearModel(task, words, np.array(labels))
    evaluated = _read(examples, settings.split, task)
    parts = []
    while batch := list(itertools.islice(evaluated, _PREDICTED_ROWS)):
        batch_words, *columns = zip(*batch, strict=True)
        parts.append((*map(np.array, columns), model.predict(batch_words)))
    evaluated_labels, ids, outputs = map(np.concatenate, zip(*parts, strict=True))
    rows = Rows.of(evaluated_labels, outputs)
    test = None
    predicted, *predictions = prediction_files.read_predictions(
        model_run, task, settings.split
    )
    own, others = np.argsort(ids), np.argsort(predicted)
    has_unique_ids = len(np.unique(ids)) == len(ids)
    if has_unique_ids and np.array_equal(ids[own], predicted[others]):
        of_model = Rows.of(*predictions).take(others)
        test = resampling.paired_test(task, rows.take(own), of_model, task.metric)
    return verdicts.Baseline(
        metric=task.metric,
        value=value,
        metrics=metrics.compute(task.classes, rows),
        rows=len(labels),
        margin=settings.margin,
        paired=test.model_dump(mode="json") if test else None,
    )


def _read(
    examples: types.Artifact, split: str, task: TaskConfig
) -> Iterator[tuple[Words, float, int]]:
    """Yields words, label and id of each row of a split."""
    pattern = uris.join(artifact_utils.get_split_uri([examples], split), "*")
    paths = files.list_records([pattern])
    for record in tf.data.TFRecordDataset(paths, "GZIP").as_numpy_iterator():
        example = tf.train.Example.FromString(record)
        (label,) = read_values(example, task.label_column)
        yield _words(example, task), label, read_id(example, task.id_column)


def _words(example: tf.train.Example, task: TaskConfig) -> Words:
    if task.is_tokenized:
        columns = (read_values(example, name) for name in TOKENIZED_FEATURES)
        tokens = [(i, s) for i, mask, s in zip(*columns, strict=True) if mask]
        return [
            [str(token) for token, segment in tokens if segment == index]
            for index in range(len(task.text_columns))
        ]
    texts = (read_values(example, column) for column in task.text_columns)
    return [
        linear_model.split_words(b"".join(text).decode("utf-8", "replace"))
        for text in texts
    ]
