"""The first batch as token ids and as a table of tokens."""

import pytest
import tensorflow as tf

from contracts.task.definition import TaskConfig
from modules.data import batch_view, inputs, preprocessing
from tests import tiny

pytestmark = pytest.mark.slow

ROWS = 20


@pytest.fixture(scope="module")
def batch(tmp_path_factory):
    """A batch, the task, and the vocabulary."""
    directory = tmp_path_factory.mktemp("batch")
    path = tiny.write_transformed(directory / "train.gz", ROWS)
    data = inputs.ExamplesConfig(
        input_path=[str(path)], global_batch_size=8, is_training=True, seed=3
    )
    vocab_file = tiny.write_encoder(directory / "encoder") / "vocab.txt"
    return batch_view.first_batch(data), data, TaskConfig(), str(vocab_file)


def test_batch_is_the_first_one_of_the_training(batch):
    (_, targets), data, _, _ = batch
    _, expected = next(iter(inputs.build_batches(data)))
    assert targets["ids"].numpy().tolist() == expected["ids"].numpy().tolist()


def test_only_the_first_rows_of_a_large_split_are_read(batch, monkeypatch):
    monkeypatch.setattr(batch_view, "MOST_ROWS", 9)
    _, data, _, _ = batch
    _, targets = batch_view.first_batch(data)
    assert set(targets["ids"].numpy()) < set(range(9))


def test_table_has_the_tokens_of_each_row_without_padding(batch):
    loaded, _, task, vocab_file = batch
    texts = tiny.pairs(ROWS)
    rows = batch_view.describe_rows(loaded, task, vocab_file)
    assert len(rows) == 8
    for row in rows:
        same, *sentences = texts[row.id]
        first, second = map(tiny._split, sentences)
        assert row.tokens == ["[CLS]", *first, "[SEP]", *second, "[SEP]"]
        assert row.label == task.classes[same]


def test_shorter_row_is_padded_in_the_ids_and_not_in_the_table(tmp_path):
    words = tf.ragged.constant([[2, 6, 3], [2, 6, 7, 3]], dtype=tf.int64)
    labels = ids = tf.constant([0, 1], tf.int64)
    loaded = inputs.pad_batch((words, tf.zeros_like(words), labels, ids), [])
    vocab_file = tiny.write_encoder(tmp_path / "encoder") / "vocab.txt"
    rows = batch_view.describe_rows(loaded, TaskConfig(), str(vocab_file))
    assert [row.tokens for row in rows] == [
        ["[CLS]", tiny.VOCAB[6], "[SEP]"],
        ["[CLS]", tiny.VOCAB[6], tiny.VOCAB[7], "[SEP]"],
    ]
    assert batch_view.list_features(loaded) == {
        preprocessing.INPUT_WORD_IDS: [[2, 6, 3, 0], [2, 6, 7, 3]],
        preprocessing.INPUT_MASK: [[1, 1, 1, 0], [1, 1, 1, 1]],
        preprocessing.INPUT_TYPE_IDS: [[0, 0, 0, 0], [0, 0, 0, 0]],
    }
