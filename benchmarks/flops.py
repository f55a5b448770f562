"""Floating-point operations of a training, and a machine's rate of them."""

from __future__ import annotations

import statistics
import time

import numpy as np
import tensorflow as tf
from official.nlp.modeling import models

# Rows and columns of the matrices.
CPU_SIZE, GPU_SIZE = 2048, 8192
_REPEATS = 5


def training_flops(model: models.BertClassifier, lengths: np.ndarray) -> float:
    """Counts the operations of real tokens: 6 per parameter and token, and attention.

    Padding is not counted. Operations that an implementation skips are counted (ours
    skips all tokens but `[CLS]` in the last layer). Attention takes 4 operations
    forward and 8 backward for each layer, pair of tokens and hidden unit. Source:
    Kaplan et al. 2020, section 2.1.

    Args:
      model: The classifier.
      lengths: Tokens of each row, int[rows].
    """
    encoder = model.checkpoint_items["encoder"]
    parameters = sum(
        float(np.prod(variable.shape))
        for layer in encoder.transformer_layers
        for variable in layer.trainable_variables
    )
    lengths = lengths.astype(np.float64)
    hidden = encoder.get_embedding_table().shape[-1]
    attention = 12 * len(encoder.transformer_layers) * hidden * (lengths**2).sum()
    return float(6 * parameters * lengths.sum() + attention)


def matrix_multiply_rate(dtype: str, size: int) -> float:
    """Measures the operations per second of one large matrix product.

    Args:
      dtype: `float32` or `bfloat16`.
      size: Rows and columns.
    """
    square = tf.cast(tf.random.normal([size, size]), dtype)
    seconds = []
    for _ in range(1 + _REPEATS):
        started = time.perf_counter()
        tf.matmul(square, square)[0, 0].numpy()
        seconds.append(time.perf_counter() - started)
    return float(2 * size**3 / statistics.median(seconds[1:]))
