"""Activations of the feed-forward layers, and their compilation for training."""

from __future__ import annotations

import functools
import math
from collections.abc import Callable
from typing import Any

import tensorflow as tf
import tf_keras

_ROOT_2_OVER_PI = math.sqrt(2 / math.pi)

Activation = Callable[[tf.Tensor], tf.Tensor]
Gradient = Callable[..., Any]


class ElementwiseActivation(tf_keras.layers.Activation):
    """An activation that XLA compiles into one pass, for training on a CPU.

    TensorFlow's kernels pass over the batch ten times forward and backward, which took
    a fifth of a step in bfloat16. The exported graph is not compiled.
    """

    def call(self, inputs: tf.Tensor, training: bool | None = None) -> tf.Tensor:
        """Applies the activation in the layer's compute type.

        Args:
          inputs: float[rows, inner].
          training: Whether the model is trained.
        """
        # Compiling takes 60 ms for each shape. Narrower layers do not save that much.
        if training is True and inputs.shape[-1] >= 512:
            strategy = tf.distribute.get_strategy()
            is_on_tpu = isinstance(strategy, tf.distribute.TPUStrategy)
            if not is_on_tpu and not tf.config.list_logical_devices("GPU"):
                return _compile(self.activation)(inputs)
        return super().call(tf.cast(inputs, self.compute_dtype))


@tf.custom_gradient
def gelu(inputs: tf.Tensor) -> tuple[tf.Tensor, Gradient]:
    """Applies the Gaussian error linear unit (Hendrycks and Gimpel 2016)."""
    probability = 0.5 * tf.math.erf(inputs * math.sqrt(0.5)) + 0.5

    def gradient(upstream: tf.Tensor) -> tf.Tensor:
        density = tf.exp(-0.5 * tf.square(inputs))
        slope = probability + inputs / math.sqrt(2 * math.pi) * density
        return upstream * slope

    return inputs * probability, gradient


@tf.custom_gradient
def approximate_gelu(inputs: tf.Tensor) -> tuple[tf.Tensor, Gradient]:
    """Applies the unit's approximation by a tangent, as Google's BERT does."""
    cubic = 0.044715 * _ROOT_2_OVER_PI
    squared = tf.square(inputs)
    tangent = tf.tanh(inputs * (_ROOT_2_OVER_PI + cubic * squared))
    weight = 0.5 + 0.5 * tangent

    def gradient(upstream: tf.Tensor) -> tf.Tensor:
        inner = _ROOT_2_OVER_PI + 3 * cubic * squared
        slope = weight + 0.5 * inputs * (1 - tf.square(tangent)) * inner
        return upstream * slope

    return inputs * weight, gradient


@functools.cache
def _compile(activation: Activation) -> Activation:
    """Compiles an activation in float32, and its gradient, which saves only inputs."""

    @tf.function(autograph=False, jit_compile=True, reduce_retracing=True)
    def forward(inputs: tf.Tensor) -> tf.Tensor:
        return tf.cast(activation(tf.cast(inputs, tf.float32)), inputs.dtype)

    @tf.function(autograph=False, jit_compile=True, reduce_retracing=True)
    def backward(inputs: tf.Tensor, upstream: tf.Tensor) -> tf.Tensor:
        with tf.GradientTape() as tape:
            tape.watch(inputs)
            outputs = forward(inputs)
        return tape.gradient(outputs, inputs, upstream)

    @tf.custom_gradient
    def apply(inputs: tf.Tensor) -> tuple[tf.Tensor, Gradient]:
        return forward(inputs), lambda upstream: backward(inputs, upstream)

    return apply
