"""The records of a training: the best weights, predictions, the first batch."""

import csv
import math
import types

import numpy as np
import pytest
import tensorflow as tf

from contracts.task.definition import TaskConfig
from modules.data import inputs, preprocessing
from modules.evaluation import prediction_files
from modules.training import model_run
from modules.training.model_run import BEST, TrainingRecord
from tests import tiny

ROWS = 20


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


@pytest.fixture(scope="module", params=["class", "score"])
def batch(request, tmp_path_factory):
    """A batch of each kind of task, the task, and the vocabulary."""
    directory = tmp_path_factory.mktemp("batch")
    task = TaskConfig.model_validate(
        {"label_range": [0.0, 5.0]} if request.param == "score" else {}
    )
    path = tiny.write_transformed(directory / "train.gz", ROWS, label=request.param)
    data = inputs.ExamplesConfig(
        input_path=[str(path)],
        global_batch_size=8,
        is_training=True,
        label_dtype=task.label_kind.dtype,
        seed=3,
    )
    vocab_file = tiny.write_encoder(directory / "encoder") / "vocab.txt"
    return model_run.first_batch(data), data, task, str(vocab_file)


@pytest.mark.slow
@pytest.mark.parametrize("batch", ["class"], indirect=True)
def test_batch_is_the_first_one_of_the_training(batch):
    (_, targets), data, _, _ = batch
    _, expected = next(iter(inputs.build_batches(data)))
    assert targets["ids"].numpy().tolist() == expected["ids"].numpy().tolist()


@pytest.mark.slow
@pytest.mark.parametrize("batch", ["class"], indirect=True)
def test_only_the_first_rows_of_a_large_split_are_read(batch, monkeypatch):
    monkeypatch.setattr(model_run, "MOST_ROWS", 9)
    _, data, _, _ = batch
    _, targets = model_run.first_batch(data)
    assert set(targets["ids"].numpy()) < set(range(9))


@pytest.mark.slow
def test_table_has_the_tokens_of_each_row_without_padding(batch):
    loaded, _, task, vocab_file = batch
    texts = tiny.pairs(ROWS)
    rows = model_run.describe_rows(loaded, task, vocab_file)
    assert len(rows) == 8
    for row in rows:
        same, *sentences = texts[row.id]
        first, second = map(tiny._split, sentences)
        assert row.tokens == ["[CLS]", *first, "[SEP]", *second, "[SEP]"]
        label = str(5 * same) if task.classes is None else task.classes[same]
        assert row.label == label


@pytest.mark.slow
def test_shorter_row_is_padded_in_the_ids_and_not_in_the_table(tmp_path):
    words = tf.ragged.constant([[2, 6, 3], [2, 6, 7, 3]], dtype=tf.int64)
    labels = ids = tf.constant([0, 1], tf.int64)
    loaded = inputs.pad_batch((words, tf.zeros_like(words), labels, ids), [])
    vocab_file = tiny.write_encoder(tmp_path / "encoder") / "vocab.txt"
    rows = model_run.describe_rows(loaded, TaskConfig(), str(vocab_file))
    assert [row.tokens for row in rows] == [
        ["[CLS]", tiny.VOCAB[6], "[SEP]"],
        ["[CLS]", tiny.VOCAB[6], tiny.VOCAB[7], "[SEP]"],
    ]
    assert model_run.list_features(loaded) == {
        preprocessing.INPUT_WORD_IDS: [[2, 6, 3, 0], [2, 6, 7, 3]],
        preprocessing.INPUT_MASK: [[1, 1, 1, 0], [1, 1, 1, 1]],
        preprocessing.INPUT_TYPE_IDS: [[0, 0, 0, 0], [0, 0, 0, 0]],
    }


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
