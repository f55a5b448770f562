"""Decodes `tf.Example` protocol buffers."""

from __future__ import annotations

from typing import Any

import tensorflow as tf

from modules.config.task import NO_ID


def read_values(example: tf.train.Example, column: str) -> list[Any]:
    """Returns the values of a feature: bytes, floats or integers; empty if missing."""
    feature = example.features.feature[column]
    kind = feature.WhichOneof("kind")
    return list(getattr(feature, kind).value) if kind else []


def read_id(example: tf.train.Example, column: str) -> int:
    """Returns the first value of an int64 feature; NO_ID if it is missing."""
    return next(iter(example.features.feature[column].int64_list.value), NO_ID)
