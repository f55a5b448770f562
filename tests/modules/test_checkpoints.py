"""Files that survive being killed."""

import math

import pytest
import tensorflow as tf

from modules import checkpoints


def test_json_holds_null_where_a_metric_is_no_number(tmp_path):
    path = str(tmp_path / "records" / "metrics.json")
    checkpoints.write_json(path, {"auc": math.nan, "steps": [1, math.inf], "f1": 0.5})
    assert checkpoints.read_json(path) == {"auc": None, "steps": [1, None], "f1": 0.5}


def test_json_that_is_not_there_is_none(tmp_path):
    assert checkpoints.read_json(str(tmp_path / "absent.json")) is None


def model(value):
    found = tf.Module()
    found.weights = tf.Variable([value])
    return found


def test_better_weights_take_the_place_of_the_best(tmp_path):
    best = checkpoints.BestCheckpoint(str(tmp_path))
    assert best.record() is None
    best.save(model(1.0), {"step": 1})
    best.save(model(2.0), {"step": 2})
    assert best.record() == {"step": 2}
    restored = model(0.0)
    best.restore(restored)
    assert restored.weights.numpy() == [2.0]
    names = [path.name for path in (tmp_path / checkpoints.BEST).iterdir()]
    assert not any("weights-1" in name for name in names)


def test_weights_that_were_never_saved_are_missing(tmp_path):
    with pytest.raises(FileNotFoundError, match="no best checkpoint in"):
        checkpoints.BestCheckpoint(str(tmp_path)).restore(model(0.0))


def test_weights_of_another_model_are_refused(tmp_path):
    best = checkpoints.BestCheckpoint(str(tmp_path))
    best.save(model(1.0), {"step": 1})
    other = model(0.0)
    other.head = tf.Variable([3.0])
    with pytest.raises(AssertionError):
        best.restore(other)
