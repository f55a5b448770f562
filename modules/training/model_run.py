"""The records of a training: the `ModelRun` artifact of TFX's Trainer."""

from __future__ import annotations

import csv
import io
import itertools
import os
from collections.abc import Iterable

import numpy as np
import tf_keras
from official.core import config_definitions, train_utils

from contracts.storage import files, uris
from contracts.task.definition import TaskConfig
from modules.data import batch_view, inputs
from modules.evaluation import prediction_files
from modules.evaluation.prediction_files import Predictions
from modules.training import checkpoints
from modules.training.record import BEST

OPTIMIZER_FILE = "optimizer.json"
METRICS_FILE = "metrics.json"
MODEL_GRAPH = "model.dot"
BATCH_TABLE = "batch.tsv"
BATCH_FILE = "batch.json"


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
    batch = batch_view.first_batch(data)
    features = batch_view.list_features(batch)
    files.write_record(uris.join(directory, BATCH_FILE), features)
    own_columns = map(task.own_name, ("length", "tokens"))
    table = [[task.id_column, task.label_column, *own_columns]]
    table += [
        [str(row.id), row.label, str(len(row.tokens)), " ".join(row.tokens)]
        for row in batch_view.describe_rows(batch, task, vocab_file)
    ]
    _write_table(uris.join(directory, BATCH_TABLE), table)


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
