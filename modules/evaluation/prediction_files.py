"""The recorded predictions of a `ModelRun`: a TSV file for each evaluated split."""

from __future__ import annotations

import csv
import dataclasses
import io
from typing import Any, NamedTuple

import numpy as np

from contracts import metrics
from contracts.metrics import Rows, Threshold
from contracts.storage import files, uris
from contracts.task.definition import TaskConfig
from modules.evaluation import calibration

PREDICTION = "prediction"  # column of the class or the score


@dataclasses.dataclass(frozen=True)
class Predictions:
    """A model's predictions on a split, in the order of its examples.

    Attributes:
      ids: int64[examples].
      labels: int64[examples], int64[examples, classes] of several labels, or
        float32[examples] in a regression.
      outputs: Probabilities float32[examples, classes], of several labels float64, or
        scores float32[examples].
      losses: The trainer's, float32[examples].
      threshold: As in `Rows.of`.
    """

    ids: np.ndarray
    labels: np.ndarray
    outputs: np.ndarray
    losses: np.ndarray
    threshold: Threshold = None

    @property
    def rows(self) -> Rows:
        """The values that metrics read.

        The loss of classes is the trainer's, that of scores is in their own units.
        """
        losses = None if self.outputs.ndim == 1 else self.losses
        return Rows.of(self.labels, self.outputs, losses, threshold=self.threshold)

    def compute_metrics(self, task: TaskConfig) -> dict[str, float]:
        """Returns the metrics of the task."""
        return metrics.compute(task.classes, self.rows)

    def scale(self, temperature: float) -> Predictions:
        """Returns them with the probabilities and losses of a temperature."""
        outputs = calibration.scale(
            self.outputs, temperature, are_independent=self.rows.has_label_sets
        )
        losses = Rows.of(self.labels, outputs).losses
        return dataclasses.replace(self, outputs=outputs, losses=losses)


class RecordedPredictions(NamedTuple):
    """The recorded predictions of a split.

    Attributes:
      ids: int64[rows].
      labels: int64[rows], int64[rows, classes] of several labels, or float64[rows] of
        a regression.
      outputs: Probabilities float64[rows, classes], or scores float64[rows].
      predicted: Predicted classes or scores, float64, shaped as the labels. NaN if an
        output is not finite.
    """

    ids: np.ndarray
    labels: np.ndarray
    outputs: np.ndarray
    predicted: np.ndarray

    @property
    def rows(self) -> Rows:
        """The values that metrics read."""
        return Rows.of(self.labels, self.outputs, predicted=self.predicted)

    def find(self, ids: np.ndarray) -> Rows | None:
        """Returns the rows with ids int64[rows], in their order.

        Returns:
          None if the ids are not unique, or if one has no prediction.
        """
        index = {row: number for number, row in enumerate(self.ids.tolist())}
        is_unique = len(index) == len(self.ids) and len(np.unique(ids)) == len(ids)
        if not (is_unique and index.keys() >= set(ids.tolist())):
            return None
        return self.rows.take(np.array([index[row] for row in ids.tolist()], int))


def describe_predictions(task: TaskConfig, split: str) -> dict[str, Any]:
    """Describes the predictions of a split.

    Returns:
      `file` in the `ModelRun`, its `id_column`, its numeric `columns`, and the `output`
      of the exported model whose values they hold.
    """
    _, _, prediction, *probabilities = header(task)
    return {
        "file": f"predictions/{split}.tsv",
        "id_column": task.id_column,
        "columns": probabilities or [prediction],
        "output": task.label_kind.output,
    }


def header(task: TaskConfig) -> list[str]:
    """Returns the columns of a file: id, label, prediction, and the probabilities.

    The id and the label have the names of the task; see `TaskConfig.own_name`.
    """
    probabilities = (f"probability_{name}" for name in task.label_kind.names)
    predicted = map(task.own_name, (PREDICTION, *probabilities))
    return [task.id_column, task.label_column, *predicted]


def read_predictions(
    directory: str, task: TaskConfig, split: str
) -> RecordedPredictions:
    """Reads the predictions of a split.

    Raises:
      OSError: The split has no predictions.
    """
    described = describe_predictions(task, split)
    path = uris.join(directory, described["file"])
    with files.open_binary(path) as file:
        text = file.read().decode()
    # By position: an earlier version could name two columns alike in the first line.
    _, *rows = csv.DictReader(io.StringIO(text), header(task), delimiter="\t")
    ids = np.array([int(row[task.id_column]) for row in rows], np.int64)
    columns = described["columns"]
    values = [[float(row[column]) for column in columns] for row in rows]
    outputs = np.array(values).reshape(len(rows), len(columns))
    kind, column = task.label_kind, task.own_name(PREDICTION)
    labels = np.array(
        [kind.parse_description(row[task.label_column]) for row in rows],
        np.float64 if kind.is_scaled else np.int64,
    )
    # Where an output is not finite, the class is "nan".
    is_finite = np.isfinite(outputs).all(axis=1)
    predicted = np.full(labels.shape, np.nan)
    for index in np.flatnonzero(is_finite):
        predicted[index] = kind.parse_description(rows[index][column])
    return RecordedPredictions(ids, labels, kind.from_outputs(outputs), predicted)
