"""The records of a training: those it resumes from, and the `ModelRun` of TFX."""

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
from official.core import base_trainer, config_definitions, train_utils
from official.modeling import optimization

from contracts import metrics
from contracts.storage import files, uris
from contracts.task.definition import TaskConfig
from modules.data import inputs, preprocessing
from modules.evaluation import prediction_files
from modules.evaluation.prediction_files import Predictions
from modules.training import checkpoints

BEST = "best"  # directory of the best weights
_RECORD_FILE = "record.json"
# The summaries of a training. The Model Garden's trainer names them
# (`official/core/base_trainer.py`).
TRAIN_DIRECTORY = "train"
VALIDATION_DIRECTORY = "validation"
TRAINING_LOSS = "training_loss"
LEARNING_RATE = "learning_rate"
# The files of the `ModelRun`.
OPTIMIZER_FILE = "optimizer.json"
METRICS_FILE = "metrics.json"
MODEL_GRAPH = "model.dot"
BATCH_TABLE = "batch.tsv"
BATCH_FILE = "batch.json"
# Of a larger split, only the first rows are read for a batch.
MOST_ROWS = 10_000

Metrics = dict[str, float]


@dataclasses.dataclass(frozen=True)
class Evaluation:
    """Metrics of the evaluation split at a step; null in JSON is NaN."""

    step: int
    metrics: Metrics

    def rank(self, metric: str) -> tuple[float, float]:
        """Returns the rank by a metric; see `metrics.rank`."""
        return metrics.rank(
            self.metrics[metric], self.metrics.get(metrics.VALIDATION_LOSS)
        )


@dataclasses.dataclass(frozen=True)
class Result:
    """The outcome of training from one seed.

    Attributes:
      seed: The seed.
      steps: Steps trained.
      best_step: The step of the best evaluation.
      metrics: The metrics of that evaluation, on the evaluation split.
      stopped: Why training ended before its last step, or None.
    """

    seed: int
    steps: int
    best_step: int
    metrics: Metrics
    stopped: str | None = None

    def rank(self, metric: str) -> tuple[float, float]:
        """Returns the rank of the best evaluation by a metric."""
        return Evaluation(self.best_step, self.metrics).rank(metric)


def seed_directory(directory: str, seed: int) -> str:
    """Returns the directory of the training from one seed."""
    return uris.join(directory, f"seed-{seed}")


class TrainingRecord:
    """The record of a training in its directory: `record.json` and the best weights.

    A resumed training reads it, so that it selects the same model and stops at the
    same step as an uninterrupted one. The best weights are written before the file
    that names them.

    Args:
      directory: Directory of the training.
      metric: The deciding metric; higher is better. Evaluations with equal metrics are
        ordered by their loss.
      is_chief: Whether this process writes.

    Attributes:
      metric: The deciding metric.
      evaluations: By step.
      best: The best evaluation so far, or None.
      result: The result of a finished training, or None.
    """

    def __init__(self, directory: str, metric: str, *, is_chief: bool = True) -> None:
        self._directory = directory
        self.metric = metric
        self._is_chief = is_chief
        content = files.read_record(self._path(_RECORD_FILE))
        if content is None:
            content = {"evaluations": [], "best": None, "result": None}
        self.evaluations = [Evaluation(**entry) for entry in content["evaluations"]]
        self.best: Evaluation | None = content["best"] and Evaluation(**content["best"])
        self.result: Result | None = content["result"] and Result(**content["result"])

    def add(self, step: int, values: Metrics, trainer: base_trainer.Trainer) -> None:
        """Records an evaluation, and saves the weights if it is the best so far.

        An evaluation before the first step is never the best: its head is untrained.
        """
        evaluation = Evaluation(step, values)
        self.evaluations.append(evaluation)
        previous = self.best
        if step and (
            previous is None
            or evaluation.rank(self.metric) > previous.rank(self.metric)
        ):
            self.best = evaluation
            self._save_weights(trainer, step)
        if not self._is_chief:
            return
        self._write()
        if previous is not None and self.best is evaluation and previous.step != step:
            for name in tf.io.gfile.glob(f"{self._weights(previous.step)}.*"):
                tf.io.gfile.remove(name)

    def drop_after(self, step: int) -> None:
        """Drops the evaluations of later steps, which will be repeated."""
        self.evaluations = [entry for entry in self.evaluations if entry.step <= step]

    def has_evaluation(self, step: int) -> bool:
        """Returns whether the step has been evaluated."""
        return any(entry.step == step for entry in self.evaluations)

    def reason_to_stop(self, patience: int | None) -> str | None:
        """Returns why training should stop early, or None.

        Args:
          patience: Evaluations without improvement after which training stops.
        """
        ranks = [e.rank(self.metric) for e in self.evaluations if e.step]
        if patience is None or not ranks:
            return None
        since = len(ranks) - 1 - ranks.index(max(ranks))
        if since < patience:
            return None
        return f"no better {self.metric} in {since} evaluations (trainer.patience)"

    def finish(self, *, seed: int, steps: int, stopped: str | None) -> Result:
        """Records that the training has finished; see `Result`."""
        assert self.best is not None  # the last step is always evaluated
        self.result = Result(
            seed=seed,
            steps=steps,
            best_step=self.best.step,
            metrics=self.best.metrics,
            stopped=stopped,
        )
        if self._is_chief:
            self._write()
        return self.result

    def restore_best(self, model: tf_keras.Model) -> None:
        """Restores the best weights into a model.

        Raises:
          FileNotFoundError: There has been no evaluation.
          AssertionError: The model has a weight that was not saved.
        """
        if self.best is None:
            raise FileNotFoundError(f"no best model in {self._directory}")
        status = tf.train.Checkpoint(model=model).read(self._weights(self.best.step))
        status.assert_existing_objects_matched()

    def _save_weights(self, trainer: base_trainer.Trainer, step: int) -> None:
        optimizer = trainer.optimizer
        # The averages were evaluated, and the trainer has swapped them back.
        is_averaged = isinstance(optimizer, optimization.ExponentialMovingAverage)
        if is_averaged:
            optimizer.swap_weights()
        if self._is_chief:
            weights = tf.train.Checkpoint(model=trainer.model)
            weights.write(self._weights(step))
        if is_averaged:
            optimizer.swap_weights()

    def _write(self) -> None:
        content = {
            "evaluations": [dataclasses.asdict(entry) for entry in self.evaluations],
            "best": self.best and dataclasses.asdict(self.best),
            "result": self.result and dataclasses.asdict(self.result),
        }
        files.write_record(self._path(_RECORD_FILE), content)

    def _path(self, name: str) -> str:
        return uris.join(self._directory, name)

    def _weights(self, step: int) -> str:
        return uris.join(self._directory, BEST, f"weights-{step}")


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
