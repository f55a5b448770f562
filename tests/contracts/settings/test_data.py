"""The columns that the evaluation is sliced by."""

from contracts.settings.data import check_slice_columns
from contracts.task.definition import TaskConfig
from tests.refusals import refused


def test_label_column_is_no_slice():
    task = TaskConfig(kind="multilabel", classes=["rude", "threat"])
    check_slice_columns(["region"], task)
    got = "names 'threat', a column of the task"
    with refused("E-settings-refused", setting="data.slice_columns", got=got):
        check_slice_columns(["threat"], task)
