"""Files that appear complete, on a file system and on an object store."""

import math

import pytest
import tensorflow as tf

from modules import files

REMOTE = "ram://files"


@pytest.fixture(params=["local", "remote"])
def directory(request, tmp_path):
    if request.param == "local":
        return str(tmp_path)
    if tf.io.gfile.exists(REMOTE):
        tf.io.gfile.rmtree(REMOTE)
    return REMOTE


def test_json_holds_null_where_a_metric_is_not_finite(directory):
    path = f"{directory}/records/metrics.json"
    files.write_json(path, {"auc": math.nan, "steps": [1, math.inf], "f1": 0.5})
    assert files.read_json(path) == {"auc": None, "steps": [1, None], "f1": 0.5}


def test_json_that_does_not_exist_is_none(directory):
    assert files.read_json(f"{directory}/absent.json") is None


def test_copy_replaces_an_older_file(directory):
    files.write(f"{directory}/source", b"new")
    files.write(f"{directory}/copies/1", "old")
    files.copy(f"{directory}/source", f"{directory}/copies/1")
    assert tf.io.gfile.GFile(f"{directory}/copies/1").read() == "new"


def test_failed_write_leaves_the_older_file_and_no_other(directory, monkeypatch):
    files.write(f"{directory}/run/record", "old")

    def fail(*_, **__):
        raise tf.errors.UnavailableError(None, None, "503")

    monkeypatch.setattr(tf.io.gfile, "rename", fail)
    with pytest.raises(tf.errors.UnavailableError):
        files.write(f"{directory}/run/record", "new")
    assert tf.io.gfile.GFile(f"{directory}/run/record").read() == "old"
    assert tf.io.gfile.listdir(f"{directory}/run") == ["record"]
