"""The records of a training: predictions; the first batch as ids and as tokens."""

import csv

import numpy as np
import pytest
import tensorflow as tf

from contracts.task.definition import TaskConfig
from modules.data import inputs, preprocessing
from modules.evaluation import prediction_files
from modules.training import model_run
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
