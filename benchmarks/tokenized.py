"""Writes the rows that peers train on, tokenized as Transform tokenizes them.

Writes TFRecords, and NumPy arrays for peers without TensorFlow.
"""

from __future__ import annotations

from pathlib import Path

import numpy as np
import tensorflow as tf

from contracts.storage import files
from ingest.examples import preparation
from modules.data import preprocessing
from modules.encoder_files import VOCAB_FILE
from pipeline.config.recipe import Config

RECORDS = "train.tfrecord.gz"
ARRAYS = "train.npz"


def write_train_split(config: Config, encoder: str, directory: Path) -> int:
    """Writes the training split of a configuration, tokenized and unpadded.

    Args:
      config: Its `data.source` is a directory of TSV splits.
      encoder: The encoder's directory, for its vocabulary.
      directory: A new directory for `RECORDS` and `ARRAYS`. The arrays are `word_ids`
        and `type_ids`, int64[tokens] of all rows together, `lengths` int64[rows] and
        `labels` int64[rows].

    Returns:
      The number of rows.
    """
    examples = directory / "examples"
    preparation.prepare(config.data.source or "", str(examples), config.task)
    rows = _tokenize(config, encoder, examples / "train")
    np.savez(
        directory / ARRAYS,
        word_ids=np.concatenate([word_ids for word_ids, _, _ in rows]),
        type_ids=np.concatenate([type_ids for _, type_ids, _ in rows]),
        lengths=np.array([len(word_ids) for word_ids, _, _ in rows]),
        labels=np.array([label for _, _, label in rows]),
    )
    with tf.io.TFRecordWriter(str(directory / RECORDS), options="GZIP") as writer:
        for index, (word_ids, type_ids, label) in enumerate(rows):
            features = {
                preprocessing.INPUT_WORD_IDS: word_ids,
                preprocessing.INPUT_TYPE_IDS: type_ids,
                config.task.label_column: [label],
                config.task.id_column: [index],
            }
            example = tf.train.Example()
            for name, values in features.items():
                example.features.feature[name].int64_list.value.extend(values)
            writer.write(example.SerializeToString())
    return len(rows)


def _tokenize(
    config: Config, encoder: str, directory: Path
) -> list[tuple[np.ndarray, np.ndarray, int]]:
    task = config.task
    features = {
        **{name: tf.io.FixedLenFeature([], tf.string) for name in task.text_columns},
        task.label_column: tf.io.FixedLenFeature([], tf.int64),
    }
    paths = files.list_records([f"{directory}/*"])
    records = tf.data.TFRecordDataset(paths, compression_type="GZIP")

    def tokenize(serialized: tf.Tensor) -> tuple[tf.RaggedTensor, ...]:
        columns = tf.io.parse_example(serialized, features)
        packed = preprocessing.text_to_inputs(
            [columns[name] for name in task.text_columns],
            f"{encoder}/{VOCAB_FILE}",
            config.preprocessing,
        )
        names = (preprocessing.INPUT_WORD_IDS, preprocessing.INPUT_TYPE_IDS)
        return (*(packed[name] for name in names), columns[task.label_column])

    rows = records.batch(512).map(tokenize).unbatch()
    return [(ids.numpy(), types.numpy(), int(label)) for ids, types, label in rows]
