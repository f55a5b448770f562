"""Reads Examples, and decodes `tf.Example` protocol buffers."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np
import tensorflow as tf

from contracts.storage import files
from contracts.task.definition import NO_ID, TaskConfig
from modules.data import sampling, slice_columns


def read_values(example: tf.train.Example, column: str) -> list[Any]:
    """Returns the values of a feature: bytes, floats or integers; empty if missing."""
    feature = example.features.feature[column]
    kind = feature.WhichOneof("kind")
    return list(getattr(feature, kind).value) if kind else []


def read_id(example: tf.train.Example, column: str) -> int:
    """Returns the first value of an int64 feature; NO_ID if it is missing."""
    return next(iter(example.features.feature[column].int64_list.value), NO_ID)


def read_records(pattern: str) -> Iterator[bytes]:
    """Yields the serialized Examples of TFRecords, gzipped if their name ends so."""
    for path in files.list_records([pattern]):
        compression = "GZIP" if path.endswith(".gz") else ""
        yield from tf.data.TFRecordDataset(path, compression).as_numpy_iterator()


def sample_records(pattern: str, most: int) -> list[bytes]:
    """Returns records of files: a sample if there are more than `most`.

    It is the same for any order of the records and of the files.
    """
    return sampling.draw(read_records(pattern), most, lambda record: record)


def read_column(records: Sequence[bytes], column: str) -> np.ndarray:
    """Returns the values of a column with numbers, float64[rows * values of a row].

    Args:
      records: Serialized Examples.
      column: The column.
    """
    parsed = map(tf.train.Example.FromString, records)
    values = (value for example in parsed for value in read_values(example, column))
    return np.fromiter(values, float)


def read_labels(records: Sequence[bytes], task: TaskConfig) -> np.ndarray:
    """Returns the labels of Examples, float64[rows], or [rows, classes] of several."""
    values = read_column(records, task.label_column)
    return task.label_kind.from_table(values.reshape(len(records), task.label_size))


def read_slices(
    record: bytes, columns: Sequence[str], task: TaskConfig
) -> Iterator[tuple[str, tuple[str, float | list[float]]]]:
    """Yields (column, (value, label)) of a serialized Example with a label."""
    example = tf.train.Example.FromString(record)
    label = task.label_kind.read(read_values(example, task.label_column))
    if label is not None:
        for column in columns:
            yield column, (slice_columns.read_value(example, column), label)
