"""The columns that the evaluation is sliced by."""

from contracts.settings.data import find_slice_problem
from contracts.task.definition import TaskConfig


def test_label_column_is_no_slice():
    task = TaskConfig(kind="multilabel", classes=["rude", "threat"])
    assert find_slice_problem(["region"], task) is None
    assert find_slice_problem(["threat"], task) == (
        "data.slice_columns names 'threat', a column of the task; leave it out"
    )
