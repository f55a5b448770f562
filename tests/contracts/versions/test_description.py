"""Which models can be evaluated on the rows of a task."""

import pytest

from contracts.task.definition import TaskConfig
from contracts.versions import description

TASK = TaskConfig(text_columns=["a", "b"], classes=["no", "yes"])


@pytest.fixture
def champion(tmp_path):
    content = {**description.describe_task(TASK), "hidden_size": 16}
    description.write_description(str(tmp_path), content)
    return str(tmp_path)


@pytest.mark.parametrize(
    ("change", "difference"),
    [
        ({}, ""),
        ({"label_column": "other", "metric": "f1"}, ""),
        ({"classes": ["yes", "no"]}, "classes ['no', 'yes'] instead of ['yes', 'no']"),
        (
            {"classes": ["no", "yes", "maybe"]},
            "classes ['no', 'yes'] instead of ['no', 'yes', 'maybe']",
        ),
        (
            {"text_columns": ["a", "c"]},
            "text_columns ['a', 'b'] instead of ['a', 'c']",
        ),
        ({"input": "tokenized"}, "input text instead of tokenized"),
        (
            {"classes": None, "label_range": [0, 5], "metric": "pearson"},
            "classes ['no', 'yes'] instead of None; label_range None instead of "
            "[0.0, 5.0]",
        ),
    ],
)
def test_task_that_predicts_something_else_differs(champion, change, difference):
    task = TaskConfig(**{**TASK.model_dump(), **change})
    expected = description.describe_task(task)
    assert description.find_task_difference(champion, expected) == difference


def test_model_without_a_description_has_no_difference(tmp_path):
    expected = description.describe_task(TASK)
    assert description.find_task_difference(str(tmp_path), expected) == ""
