"""The scale of a regression's scores: the model learns them standardized."""

from __future__ import annotations

import logging
import math
from typing import Any, NamedTuple

import numpy as np
import tensorflow as tf
import tf_keras

from contracts.task.definition import TaskConfig
from modules.data import inputs
from modules.training import strategies

_BATCH = 1024  # rows that are read at once

logger = logging.getLogger(__name__)


class ScoreScale(NamedTuple):
    """The mean and the standard deviation that standardize scores.

    Attributes:
      mean: In the units of the scores.
      std: In the units of the scores, above 0.
    """

    mean: float = 0.0
    std: float = 1.0


class ScoreProjection(tf_keras.layers.Dense):
    """A dense layer to a standardized score, which it returns in the scores' units.

    Args:
      scale: The scale of the scores.
      **kwargs: Keyword arguments of `Dense`.
    """

    def __init__(self, scale: ScoreScale, **kwargs: Any) -> None:
        super().__init__(1, **kwargs)
        self._scale = tuple(scale)

    def call(self, inputs: tf.Tensor) -> tf.Tensor:
        """Projects float[batch, inputs] to scores float32[batch, 1]."""
        mean, std = self._scale
        # In float32: bfloat16 cannot tell a score of 90 from one of 90.2.
        return tf.cast(super().call(inputs), tf.float32) * std + mean

    def adapt_weights(self, source: ScoreScale) -> None:
        """Changes weights of another scale, so that they predict the same scores."""
        mean, std = self._scale
        self.kernel.assign(self.kernel * (source.std / std))
        self.bias.assign((self.bias * source.std + source.mean - mean) / std)


def measure(
    task: TaskConfig, data: inputs.ExamplesConfig, strategy: tf.distribute.Strategy
) -> ScoreScale:
    """Returns the scale of the scores of the training split; of classes, no scale.

    Call it in the processes of all hosts.

    Args:
      task: Names the label and its range.
      data: The training split, or this host's own files of it.
      strategy: The strategy.
    """
    if not task.label_kind.is_scaled:
        return ScoreScale()
    low = task.label_kind.low
    label = {data.label_column: tf.io.FixedLenFeature([], tf.float32)}
    sums = np.zeros(3)
    for records in inputs.without_autotuning(inputs.read_records(data).batch(_BATCH)):
        scores = tf.io.parse_example(records, label)[data.label_column].numpy()
        # Squares of the distances from the range lose no digits far from 0.
        distances = scores.astype(float) - low
        sums += [len(scores), distances.sum(), (distances**2).sum()]
    if data.host_examples:  # the split is larger than this host's files
        sums = np.array(strategies.sum_over_hosts(strategy, sums.tolist(), tf.float64))
    rows, total, squares = sums
    distance = total / rows
    std = math.sqrt(max(squares / rows - distance**2, 0.0))
    if std <= np.finfo(np.float32).eps * distance:  # all scores are equal
        std = 1.0
    scale = ScoreScale(float(low + distance), std)
    logger.info("scores are standardized: mean %.6g, deviation %.6g", *scale)
    return scale
