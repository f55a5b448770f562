"""The record of a training and its best weights."""

import math
import types

import pytest
import tensorflow as tf

from modules.training.record import BEST, TrainingRecord


def trainer(value):
    model = tf.Module()
    model.weights = tf.Variable([value])
    return types.SimpleNamespace(model=model, optimizer=None)


def open_record(directory, **settings):
    return TrainingRecord(str(directory), "f1", **settings)


def test_better_weights_replace_the_best_and_are_restored_later(tmp_path):
    record = open_record(tmp_path)
    for step, f1 in ((1, 0.5), (2, 0.75), (3, 0.75), (4, math.nan)):
        record.add(step, {"f1": f1}, trainer(float(step)))
    restored = trainer(0.0).model
    open_record(tmp_path).restore_best(restored)
    assert restored.weights.numpy() == [2.0]
    names = {path.name.partition(".")[0] for path in (tmp_path / BEST).iterdir()}
    assert names == {"weights-2"}


@pytest.mark.parametrize("f1", [0.0, 0.75, math.nan])
def test_equal_metrics_are_ordered_by_loss(tmp_path, f1):
    record = open_record(tmp_path)
    losses = (0.7, 0.4, 0.4, math.nan, 0.5)
    for step, loss in enumerate(losses, 1):
        values = {"f1": f1, "validation_loss": loss}
        record.add(step, values, trainer(float(step)))
    reopened = open_record(tmp_path)
    assert reopened.finish(seed=0, steps=5, stopped=None).best_step == 2
    restored = trainer(0.0).model
    reopened.restore_best(restored)
    assert restored.weights.numpy() == [2.0]


def test_training_goes_on_while_the_loss_falls_at_an_equal_metric(tmp_path):
    record = open_record(tmp_path)
    for step, loss in enumerate((0.7, 0.6, 0.5, 0.4, 0.45, 0.41), 1):
        assert record.reason_to_stop(2) is None
        record.add(step, {"f1": 0.0, "validation_loss": loss}, trainer(0.0))
    assert record.reason_to_stop(2) is not None


def test_higher_metric_is_better_whatever_the_loss(tmp_path):
    record = open_record(tmp_path)
    record.add(1, {"f1": 0.7, "validation_loss": 0.1}, trainer(1.0))
    record.add(2, {"f1": 0.8, "validation_loss": 9.0}, trainer(2.0))
    assert record.finish(seed=0, steps=2, stopped=None).best_step == 2


def test_first_evaluation_is_the_best_even_if_its_metric_is_nan(tmp_path):
    record = open_record(tmp_path)
    record.add(1, {"f1": math.nan}, trainer(1.0))
    reopened = open_record(tmp_path)
    result = reopened.finish(seed=0, steps=1, stopped=None)
    assert (result.best_step, result.metrics) == (1, {"f1": None})


def test_patience_counts_evaluations_since_the_first_of_the_best(tmp_path):
    record = open_record(tmp_path)
    assert record.reason_to_stop(1) is None
    for step, f1 in enumerate((0.5, 0.7, 0.7, 0.6)):
        record.add(step, {"f1": f1}, trainer(0.0))
    reopened = open_record(tmp_path)
    assert reopened.reason_to_stop(None) is None
    assert reopened.reason_to_stop(3) is None
    assert reopened.reason_to_stop(2).startswith("no better f1 in 2 evaluations")


def test_evaluations_of_later_steps_are_dropped_and_the_best_weights_stay(tmp_path):
    record = open_record(tmp_path)
    for step in (1, 2, 3):
        record.add(step, {"f1": step / 10}, trainer(float(step)))
    record.drop_after(2)
    assert [record.has_evaluation(step) for step in (1, 2, 3)] == [True, True, False]
    record.add(3, {"f1": 0.3}, trainer(9.0))  # the same evaluation once more
    restored = trainer(0.0).model
    record.restore_best(restored)
    assert restored.weights.numpy() == [3.0]


def test_worker_that_is_not_the_chief_writes_nothing(tmp_path):
    record = open_record(tmp_path, is_chief=False)
    record.add(1, {"f1": 0.5}, trainer(1.0))
    assert record.finish(seed=0, steps=1, stopped=None).best_step == 1
    assert not list(tmp_path.iterdir())


def test_weights_that_were_never_saved_are_missing(tmp_path):
    with pytest.raises(FileNotFoundError, match="no best model in"):
        open_record(tmp_path).restore_best(trainer(0.0).model)


def test_weights_of_another_model_are_refused(tmp_path):
    record = open_record(tmp_path)
    record.add(1, {"f1": 0.5}, trainer(1.0))
    other = trainer(0.0).model
    other.head = tf.Variable([3.0])
    with pytest.raises(AssertionError):
        record.restore_best(other)
