"""Batches: every row once an epoch, pairs of like length together."""

import itertools

import numpy as np
import pytest
import tensorflow as tf

from modules import inputs

ROWS = 1100
BATCH = 16


@pytest.fixture(scope="module")
def pattern(tmp_path_factory):
    """Examples of 4 to 60 tokens; the label is the row's number."""
    random = np.random.default_rng(0)
    path = tmp_path_factory.mktemp("examples") / "examples.gz"
    with tf.io.TFRecordWriter(str(path), options="GZIP") as writer:
        for index in range(ROWS):
            ids = random.integers(1, 99, size=random.integers(4, 61))
            columns = {
                "input_word_ids": ids,
                "input_type_ids": np.zeros_like(ids),
                "label": [index],
            }
            features = {
                name: tf.train.Feature(int64_list=tf.train.Int64List(value=values))
                for name, values in columns.items()
            }
            example = tf.train.Example(features=tf.train.Features(feature=features))
            writer.write(example.SerializeToString())
    return [str(path)]


def epochs(pattern, count, seed=0):
    examples = inputs.read_examples(pattern, "label")
    batches = inputs.train_batches(examples, batch_size=BATCH, seed=seed, pad_to=None)
    steps = -(-ROWS // BATCH)
    iterator = iter(batches)
    return [list(itertools.islice(iterator, steps)) for _ in range(count)]


def rows_of(epoch):
    return [int(label) for _, labels in epoch for label in labels]


def test_every_epoch_holds_each_row_once_in_an_order_of_its_own(pattern):
    first, second = epochs(pattern, 2)
    assert sorted(rows_of(first)) == list(range(ROWS))
    assert sorted(rows_of(second)) == list(range(ROWS))
    assert rows_of(first) != rows_of(second)


def test_order_follows_from_the_seed(pattern):
    tf.random.set_seed(1)
    (first,) = epochs(pattern, 1)
    (again,) = epochs(pattern, 1)
    (other,) = epochs(pattern, 1, seed=1)
    assert rows_of(first) == rows_of(again)
    assert rows_of(first) != rows_of(other)


def test_padding_is_a_few_percent_of_the_tokens(pattern):
    (epoch,) = epochs(pattern, 1)
    masks = [batch["input_mask"].numpy() for batch, _ in epoch]
    padding = 1 - sum(mask.sum() for mask in masks) / sum(mask.size for mask in masks)
    assert padding < 0.06


def test_batches_do_not_come_sorted_by_length(pattern):
    (epoch,) = epochs(pattern, 1)
    lengths = [batch["input_mask"].shape[1] for batch, _ in epoch]
    correlation = np.corrcoef(lengths, np.arange(len(lengths)))[0, 1]
    assert abs(correlation) < 0.5


def test_fixed_length_pads_all_batches_alike(pattern):
    examples = inputs.read_examples(pattern, "label")
    batches = inputs.eval_batches(examples, batch_size=BATCH, pad_to=64)
    assert {batch["input_word_ids"].shape[1] for batch, _ in batches} == {64}


def test_evaluation_reads_each_row_once_the_last_small_batch_included(pattern):
    examples = inputs.read_examples(pattern, "label")
    batches = inputs.eval_batches(examples, batch_size=BATCH, pad_to=None)
    assert rows_of(list(batches)) == list(range(ROWS))
    assert inputs.count_examples(examples) == ROWS
