"""The first batch of a training, as token ids and as tokens."""

from __future__ import annotations

import dataclasses

import tensorflow as tf

from contracts.task.definition import TaskConfig
from modules.data import inputs, preprocessing

# Of a larger split, only the first rows are read.
MOST_ROWS = 10_000


@dataclasses.dataclass(frozen=True)
class BatchRow:
    """A row of a batch.

    Attributes:
      id: Its id.
      label: Name of the class, or the score.
      tokens: Its tokens without padding, from `[CLS]` on.
    """

    id: int
    label: str
    tokens: list[str]


def first_batch(data: inputs.ExamplesConfig) -> inputs.Batch:
    """Returns the first batch of a training.

    Args:
      data: The training split. Only its first `MOST_ROWS` rows are used, in the order
        of the files. With `host_examples`, it is this host's share of the batch.
    """
    examples = data.examples or inputs.count_examples(data)
    rows = min(examples, MOST_ROWS)
    first = dataclasses.replace(
        data,
        examples=rows,
        first_rows=rows,
        host_examples=[min(count, rows) for count in data.host_examples],
        shuffle_buffer_size=max(rows, data.shuffle_buffer_size),
        workers=1,
    )
    return next(iter(inputs.build_batches(first)))


def list_features(batch: inputs.Batch) -> dict[str, list[list[int]]]:
    """Returns the encoder's inputs of a batch by name, each int[batch][seq_len]."""
    features, _ = batch
    return {
        name: features[name].numpy().tolist() for name in preprocessing.ENCODER_INPUTS
    }


def describe_rows(
    batch: inputs.Batch, task: TaskConfig, vocab_file: str
) -> list[BatchRow]:
    """Returns the rows of a batch with their tokens and the names of their labels."""
    features, targets = batch
    vocabulary = preprocessing.read_vocab(vocab_file)
    lengths = tf.reduce_sum(features[preprocessing.INPUT_MASK], axis=1).numpy()
    rows = zip(
        targets[inputs.IDS].numpy(),
        targets[inputs.LABELS].numpy(),
        features[preprocessing.INPUT_WORD_IDS].numpy(),
        lengths,
        strict=True,
    )
    return [
        BatchRow(
            id=int(row_id),
            label=task.describe_label(label),
            tokens=[vocabulary[index] for index in ids[:length]],
        )
        for row_id, label, ids, length in rows
    ]
