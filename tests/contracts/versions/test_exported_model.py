"""Which models can be evaluated on the rows of a task, and which are the same."""

import hashlib

import pytest

from contracts.task.definition import TaskConfig
from contracts.versions import exported_model

TASK = TaskConfig(text_columns=["a", "b"], classes=["no", "yes"])


@pytest.fixture
def champion(tmp_path):
    content = {**exported_model.describe_task(TASK), "hidden_size": 16}
    exported_model.write_description(str(tmp_path), content)
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
    expected = exported_model.describe_task(task)
    assert exported_model.find_task_difference(champion, expected) == difference


def test_model_without_a_description_has_no_difference(tmp_path):
    expected = exported_model.describe_task(TASK)
    assert exported_model.find_task_difference(str(tmp_path), expected) == ""


def write_model(directory, graph, identity=None):
    directory.mkdir()
    (directory / "saved_model.pb").write_bytes(graph)
    if identity is not None:
        (directory / "fingerprint.pb").write_bytes(identity)
    return str(directory)


def test_digests_identify_the_exported_model(tmp_path):
    model = write_model(tmp_path / "model", b"graph", b"first export")
    exported_model.write_digest(model, str(tmp_path / "model_run"))
    digest = exported_model.read_digest(str(tmp_path / "model_run"))
    assert digest.uri == model
    assert digest.graph == hashlib.sha256(b"graph").hexdigest()
    copy = write_model(tmp_path / "copy", b"graph", b"first export")
    other = write_model(tmp_path / "other", b"graph", b"second export")
    assert digest.identity == exported_model.identity(copy)
    assert digest.identity != exported_model.identity(other)


def test_model_without_a_fingerprint_has_no_identity(tmp_path):
    assert exported_model.identity(write_model(tmp_path / "model", b"graph")) == ""
