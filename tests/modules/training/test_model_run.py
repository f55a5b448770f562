"""The records of a training."""

import csv

import numpy as np
import pytest

from contracts.task.definition import TaskConfig
from modules.evaluation import prediction_files
from modules.training import model_run


@pytest.mark.parametrize(
    ("task", "outputs", "names"),
    [
        (
            TaskConfig(classes=["no", "yes"]),
            [[0.9, 0.1], [np.nan, np.nan], [0.25, np.inf]],
            ["no", "nan", "nan"],
        ),
        (TaskConfig(label_range=[0, 5]), [0.5, np.nan, np.inf], ["0.5", "nan", "inf"]),
    ],
)
def test_a_prediction_that_is_not_finite_is_no_class(tmp_path, task, outputs, names):
    outputs = np.array(outputs, np.float32)
    predictions = prediction_files.Predictions(
        ids=np.arange(3), labels=np.zeros(3, int), outputs=outputs, losses=np.zeros(3)
    )
    path = tmp_path / "predictions" / "eval.tsv"
    model_run.write_predictions(str(path), task, predictions)
    with path.open() as file:
        rows = list(csv.DictReader(file, delimiter="\t"))
    assert [row["prediction"] for row in rows] == names
    recorded = prediction_files.read_predictions(str(tmp_path), task, "eval")
    ids, labels, read, _ = recorded
    assert not recorded.rows.is_finite
    assert ids.tolist() == [0, 1, 2]
    assert labels.tolist() == [0, 0, 0]
    assert np.array_equal(read, outputs.astype(float).round(6), equal_nan=True)
