"""Transformed Examples as batches of the model's inputs."""

from __future__ import annotations

import tensorflow as tf

from modules import preprocessing

# Pairs of like length meet within so many batches drawn at random: padding falls to
# a few percent and the order stays close to random.
_WINDOW_BATCHES = 16


def read_examples(patterns: list[str], label_column: str) -> tf.data.Dataset:
    """Reads transformed Examples, unpadded.

    Args:
      patterns: File patterns of gzipped TFRecords.
      label_column: Name of the int64 label.

    Returns:
      A dataset of `(word_ids int64[tokens], type_ids int64[tokens], label int64[])`.
    """
    ids = tf.io.RaggedFeature(tf.int64)
    features = {
        preprocessing.INPUT_WORD_IDS: ids,
        preprocessing.INPUT_TYPE_IDS: ids,
        label_column: tf.io.FixedLenFeature([], tf.int64),
    }

    def parse(record: tf.Tensor) -> tuple[tf.Tensor, ...]:
        example = tf.io.parse_single_example(record, features)
        return (
            example[preprocessing.INPUT_WORD_IDS],
            example[preprocessing.INPUT_TYPE_IDS],
            example[label_column],
        )

    files = tf.data.Dataset.list_files(patterns, shuffle=False)
    records = tf.data.TFRecordDataset(files, compression_type="GZIP")
    return records.map(parse, num_parallel_calls=tf.data.AUTOTUNE)


def count_examples(examples: tf.data.Dataset) -> int:
    """Counts the examples by reading them once."""
    return int(examples.reduce(tf.constant(0, tf.int64), lambda n, *_: n + 1))


def train_batches(
    examples: tf.data.Dataset, *, batch_size: int, seed: int, pad_to: int | None
) -> tf.data.Dataset:
    """Batches pairs of like length, forever, in a new random order every epoch.

    Every epoch holds each example once; its last batch may be smaller.

    Args:
      examples: What `read_examples` returned.
      batch_size: Examples a batch.
      seed: Seed of the order.
      pad_to: Length that all batches are padded to; None pads to the batch's longest.

    Returns:
      A dataset of `(inputs, labels)`: the encoder's inputs int32[batch, seq_len] and
      int64[batch].
    """
    window = batch_size * _WINDOW_BATCHES
    examples = examples.cache().shuffle(4 * window, seed=seed)
    windows = examples.ragged_batch(window)

    def batches(
        word_ids: tf.RaggedTensor, type_ids: tf.RaggedTensor, labels: tf.Tensor
    ) -> tf.data.Dataset:
        order = tf.argsort(word_ids.row_lengths())
        rows = tuple(tf.gather(x, order) for x in (word_ids, type_ids, labels))
        in_order = tf.data.Dataset.from_tensor_slices(rows).ragged_batch(batch_size)
        return in_order.shuffle(_WINDOW_BATCHES, seed=seed)

    return _finish(windows.flat_map(batches).repeat(), pad_to)


def eval_batches(
    examples: tf.data.Dataset, *, batch_size: int, pad_to: int | None
) -> tf.data.Dataset:
    """Batches each example once, in the order of the files.

    Args:
      examples: What `read_examples` returned.
      batch_size: Examples a batch; the last may be smaller.
      pad_to: Length that all batches are padded to; None pads to the batch's longest.

    Returns:
      A dataset as of `train_batches`, of one pass.
    """
    return _finish(examples.cache().ragged_batch(batch_size), pad_to)


def _finish(batches: tf.data.Dataset, pad_to: int | None) -> tf.data.Dataset:
    def pad(
        word_ids: tf.RaggedTensor, type_ids: tf.RaggedTensor, labels: tf.Tensor
    ) -> tuple[dict[str, tf.Tensor], tf.Tensor]:
        return preprocessing.pad_inputs(word_ids, type_ids, pad_to), labels

    padded = batches.map(pad, num_parallel_calls=tf.data.AUTOTUNE)
    return padded.prefetch(tf.data.AUTOTUNE)
