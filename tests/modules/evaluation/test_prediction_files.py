"""Recorded predictions, whatever the columns of the task are called."""

import csv

import numpy as np
import pytest

from contracts.task.definition import TaskConfig
from modules.evaluation import prediction_files
from modules.evaluation.prediction_files import Predictions
from modules.training import model_run

pytestmark = pytest.mark.slow

CLASSES = ["bad", "good"]
IDS = np.array([4, 7, 9])
LABELS = np.array([1, 0, 1])
OUTPUTS = np.array([[0.75, 0.25], [0.5, 0.5], [0.125, 0.875]], np.float32)
SCORES = np.array([2.5, 0.5, 4.0], np.float32)


def record(directory, task):
    """Records predictions, of which one of three is right; returns the file."""
    outputs = SCORES if task.classes is None else OUTPUTS
    predictions = Predictions(IDS, LABELS, outputs, losses=np.zeros(3))
    described = prediction_files.describe_predictions(task, "eval")
    path = directory / described["file"]
    model_run.write_predictions(str(path), task, predictions)
    return path


@pytest.mark.parametrize("range_", [None, [0.0, 5.0]])
@pytest.mark.parametrize(
    "columns",
    [
        {},
        {"label_column": "prediction"},
        {"label_column": "probability_good"},
        {"id_column": "prediction", "label_column": "model_prediction"},
        {"id_column": "probability_bad", "label_column": "model_probability_bad"},
    ],
)
def test_labels_and_predictions_are_read_back_with_any_names_of_the_columns(
    tmp_path, columns, range_
):
    task = TaskConfig(
        classes=None if range_ else CLASSES,
        label_range=range_,
        metric="pearson" if range_ else "accuracy",
        **columns,
    )
    path = record(tmp_path, task)
    with path.open(newline="") as file:
        header = next(csv.reader(file, delimiter="\t"))
    assert len(set(header)) == len(header)
    assert header[:2] == [task.id_column, task.label_column]
    described = prediction_files.describe_predictions(task, "eval")
    assert set(described["columns"]) <= set(header[2:])
    recorded = prediction_files.read_predictions(str(tmp_path), task, "eval")
    ids, labels, outputs, predicted = recorded
    np.testing.assert_array_equal(predicted, recorded.rows.predictions)
    assert ids.tolist() == IDS.tolist()
    assert labels.tolist() == LABELS.tolist()
    np.testing.assert_array_equal(outputs, SCORES if range_ else OUTPUTS)


def test_run_whose_header_names_a_column_twice_is_read_by_position(tmp_path):
    task = TaskConfig(classes=CLASSES, label_column="prediction")
    path = record(tmp_path, task)
    _, *rows = path.read_text().splitlines()
    old = "idx\tprediction\tprediction\tprobability_bad\tprobability_good"
    path.write_text("\n".join([old, *rows]) + "\n")
    _, labels, *_ = prediction_files.read_predictions(str(tmp_path), task, "eval")
    assert labels.tolist() == LABELS.tolist()


def test_class_named_nan_is_a_class(tmp_path):
    task = TaskConfig(classes=["nan", "good"])
    record(tmp_path, task)
    recorded = prediction_files.read_predictions(str(tmp_path), task, "eval")
    assert recorded.predicted.tolist() == [0, 0, 1]


def test_several_labels_are_read_back_with_their_names(tmp_path):
    task = TaskConfig(
        kind="multilabel",
        classes=["rude|mean", "a threat"],
    )
    labels = np.array([[1, 1], [0, 0], [0, 1]])
    outputs = np.array([[0.75, 0.25], [0.5, 0.0625], [np.nan, 0.875]])
    predictions = Predictions(IDS, labels, outputs, np.zeros(3), threshold=[0.6, 0.2])
    path = tmp_path / prediction_files.describe_predictions(task, "eval")["file"]
    model_run.write_predictions(str(path), task, predictions)
    rows = list(csv.reader(path.read_text().splitlines(), delimiter="\t"))
    assert [row[1:3] for row in rows[1:]] == [
        ['["rude|mean", "a threat"]'] * 2,
        ["", ""],
        ["a threat", "nan"],
    ]
    recorded = prediction_files.read_predictions(str(tmp_path), task, "eval")
    assert recorded.labels.tolist() == labels.tolist()
    np.testing.assert_array_equal(recorded.outputs, outputs)
    nan = np.full(2, np.nan)
    np.testing.assert_array_equal(recorded.predicted, [[1, 1], [0, 0], nan])
    assert recorded.rows.is_right.tolist() == [True, True, False]
