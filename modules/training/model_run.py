"""The records of a training: the `ModelRun` artifact of TFX's Trainer."""

from __future__ import annotations

import csv
import dataclasses
import io
import itertools
import os
from collections.abc import Iterable

import numpy as np
import tensorflow as tf
import tf_keras
from official.core import config_definitions, train_utils

from contracts.storage import files, uris
from contracts.task.definition import TaskConfig
from modules.data import inputs, preprocessing
from modules.evaluation import prediction_files
from modules.evaluation.prediction_files import Predictions
from modules.training import checkpoints
from modules.training.record import BEST

OPTIMIZER_FILE = "optimizer.json"
METRICS_FILE = "metrics.json"
MODEL_GRAPH = "model.dot"
BATCH_TABLE = "batch.tsv"
BATCH_FILE = "batch.json"
# Of a larger split, only the first rows are read for a batch.
MOST_ROWS = 10_000


@dataclasses.dataclass(frozen=True)
class BatchRow:
    """A row of a batch.

    Attributes:
      id: Its id.
      label: Name of the class, or the score.
      tokens: Its tokens without padding, from `[CLS]` on.
    """

    id: int
    label: str
    tokens: list[str]


def write_params(params: config_definitions.ExperimentConfig, directory: str) -> None:
    """Writes `params.yaml` and the optimizer."""
    train_utils.serialize_config(params, directory)
    optimizer = params.trainer.optimizer_config
    # The Model Garden's format: `trainer.optimization` takes the file as it is.
    files.write_json(uris.join(directory, OPTIMIZER_FILE), optimizer.as_dict())


def write_batch(
    data: inputs.ExamplesConfig, task: TaskConfig, vocab_file: str, directory: str
) -> None:
    """Writes the first batch of a training: its tensors, and a table of its tokens."""
    batch = first_batch(data)
    features = list_features(batch)
    files.write_record(uris.join(directory, BATCH_FILE), features)
    own_columns = map(task.own_name, ("length", "tokens"))
    table = [[task.id_column, task.label_column, *own_columns]]
    table += [
        [str(row.id), row.label, str(len(row.tokens)), " ".join(row.tokens)]
        for row in describe_rows(batch, task, vocab_file)
    ]
    _write_table(uris.join(directory, BATCH_TABLE), table)


def first_batch(data: inputs.ExamplesConfig) -> inputs.Batch:
    """Returns the first batch of a training.

    Args:
      data: The training split. Only its first `MOST_ROWS` rows are used, in the order
        of the files. With `host_examples`, it is this host's share of the batch.
    """
    examples = data.examples or inputs.count_examples(data)
    rows = min(examples, MOST_ROWS)
    first = dataclasses.replace(
        data,
        examples=rows,
        first_rows=rows,
        host_examples=[min(count, rows) for count in data.host_examples],
        shuffle_buffer_size=max(rows, data.shuffle_buffer_size),
        workers=1,
    )
    return next(iter(inputs.build_batches(first)))


def list_features(batch: inputs.Batch) -> dict[str, list[list[int]]]:
    """Returns the encoder's inputs of a batch by name, each int[batch][seq_len]."""
    features, _ = batch
    return {
        name: features[name].numpy().tolist() for name in preprocessing.ENCODER_INPUTS
    }


def describe_rows(
    batch: inputs.Batch, task: TaskConfig, vocab_file: str
) -> list[BatchRow]:
    """Returns the rows of a batch with their tokens and the names of their labels."""
    features, targets = batch
    vocabulary = preprocessing.read_vocab(vocab_file)
    lengths = tf.reduce_sum(features[preprocessing.INPUT_MASK], axis=1).numpy()
    rows = zip(
        targets[inputs.IDS].numpy(),
        targets[inputs.LABELS].numpy(),
        features[preprocessing.INPUT_WORD_IDS].numpy(),
        lengths,
        strict=True,
    )
    return [
        BatchRow(
            id=int(row_id),
            label=task.describe_label(label),
            tokens=[vocabulary[index] for index in ids[:length]],
        )
        for row_id, label, ids, length in rows
    ]


def copy_records(source: str, destination: str) -> None:
    """Copies the directory of a training without its checkpoints and weights."""
    for path in files.list_files(source):
        if path.split("/")[0] == BEST or checkpoints.is_resumable_file(
            os.path.basename(path)
        ):
            continue
        files.copy(uris.join(source, path), uris.join(destination, path))


def write_predictions(path: str, task: TaskConfig, predictions: Predictions) -> None:
    """Writes the predictions of a split; see `prediction_files`."""
    outputs, kind = predictions.outputs, task.label_kind
    predicted = predictions.rows.predictions
    rows = zip(predictions.ids, predictions.labels, predicted, outputs, strict=True)
    table = (
        [
            str(row_id),
            kind.describe(label),
            kind.describe(prediction),
            # A score is the prediction.
            *(f"{v:.6f}" for v in np.atleast_1d(output)[: len(kind.names)]),
        ]
        for row_id, label, prediction, output in rows
    )
    header = prediction_files.header(task)
    _write_table(path, itertools.chain([header], table))


def write_graph(model: tf_keras.Model, directory: str) -> None:
    """Writes the graph of layers, `model.dot`, that `plot_model` would draw."""
    dot = tf_keras.utils.model_to_dot(
        model, show_shapes=True, expand_nested=True, dpi=None
    ).to_string()
    files.write(uris.join(directory, MODEL_GRAPH), dot)


def _write_table(path: str, table: Iterable[list[str]]) -> None:
    text = io.StringIO()
    csv.writer(text, delimiter="\t", lineterminator="\n").writerows(table)
    files.write(path, text.getvalue())
