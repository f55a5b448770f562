"""Reads Examples, and decodes `tf.Example` protocol buffers."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import tensorflow as tf
from tfx import types
from tfx.types import artifact_utils

from modules import files, uris
from modules.config.task import NO_ID, TaskConfig
from modules.data import row_values, slice_columns


def read_values(example: tf.train.Example, column: str) -> list[Any]:
    """Returns the values of a feature: bytes, floats or integers; empty if missing."""
    feature = example.features.feature[column]
    kind = feature.WhichOneof("kind")
    return list(getattr(feature, kind).value) if kind else []


def read_id(example: tf.train.Example, column: str) -> int:
    """Returns the first value of an int64 feature; NO_ID if it is missing."""
    return next(iter(example.features.feature[column].int64_list.value), NO_ID)


def read_records(examples: types.Artifact, split: str) -> Iterator[bytes]:
    """Yields the serialized Examples of a split."""
    pattern = uris.join(artifact_utils.get_split_uri([examples], split), "*")
    paths = files.list_records([pattern])
    yield from tf.data.TFRecordDataset(paths, "GZIP").as_numpy_iterator()


def read_slices(
    record: bytes, columns: Sequence[str], task: TaskConfig
) -> Iterator[tuple[str, tuple[str, float]]]:
    """Yields (column, (value, label)) of a serialized Example with a label."""
    example = tf.train.Example.FromString(record)
    match read_values(example, task.label_column):
        case [int() | float() as label] if row_values.is_label(label, task):
            for column in columns:
                yield column, (slice_columns.read_value(example, column), label)
