"""The Model Garden's layers, computed in fewer and larger operations.

On a CPU two fifths of a training step went into arithmetic that is written element by
element: every operation passes over the batch once more. These layers have the same
variables under the same names, and give the same results; only what is dropped out is
drawn in another way.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import tensorflow as tf
import tf_keras
from official.nlp.modeling import layers
from tf_keras.src.engine import base_layer_utils

from modules.encoder.dropout_seeds import draw_seed

_DROPOUT_BITS = 16
_ROOT_2_OVER_PI = math.sqrt(2 / math.pi)

Gradient = Callable[..., Any]


def use_fast_layers(network: tf_keras.Model) -> None:
    """Makes the layers of a Model Garden encoder compute as those of this file do.

    `BertEncoder` has no arguments for the classes of its layers.

    Args:
      network: A `BertEncoder` whose blocks normalize last, as BERT's do.
    """
    classes = {
        layers.TransformerEncoderBlock: EncoderBlock,
        tf_keras.layers.LayerNormalization: LayerNormalization,
        tf_keras.layers.Dropout: Dropout,
    }
    for layer in network.submodules:
        layer.__class__ = classes.get(type(layer), type(layer))


class EncoderBlock(layers.TransformerEncoderBlock):
    """A Transformer layer whose projections are plain matrix multiplications.

    A bias is a part of its multiplication. Of upstream's forms it has the one that
    `BertEncoder` uses.
    """

    def call(
        self, inputs: list[tf.Tensor], output_range: int | None = None
    ) -> tf.Tensor:
        """Attends, and feeds forward.

        Args:
          inputs: Hidden states float32[batch, seq_len, hidden] and the attention mask,
            1 where attention is allowed, [batch, seq_len, seq_len].
          output_range: The first so many positions are computed; None is all.

        Returns:
          Hidden states float32[batch, output_range or seq_len, hidden].
        """
        hidden, mask = inputs
        target = hidden[:, :output_range] if output_range else hidden
        shape = tf.shape(target)
        context = self._attend(hidden, target, mask[:, :output_range])
        attended = _project(context, self._attention_layer._output_dense)
        attended = self._attention_dropout(attended)
        # Rows of tokens from here: nothing below looks from one token to another.
        attended = self._attention_layer_norm(_rows(target) + attended)
        inner = _project(attended, self._intermediate_dense)
        inner = self._intermediate_activation_layer(inner)
        output = _project(inner, self._output_dense)
        output = tf.cast(self._output_dropout(output), tf.float32)
        output = self._output_layer_norm(output + attended)
        return tf.reshape(output, [shape[0], shape[1], target.shape[-1]])

    def _attend(
        self, hidden: tf.Tensor, target: tf.Tensor, mask: tf.Tensor
    ) -> tf.Tensor:
        attention = self._attention_layer
        scale = 1 / math.sqrt(attention._key_dim)
        query = _by_head(target, attention._query_dense, scale)
        key = _by_head(hidden, attention._key_dense)
        value = _by_head(hidden, attention._value_dense)
        scores = tf.matmul(query, key, transpose_b=True)
        probabilities = attention._masked_softmax(scores, mask)
        probabilities = attention._dropout_layer(probabilities)
        return _join_heads(tf.matmul(probabilities, value))


class LayerNormalization(tf_keras.layers.LayerNormalization):
    """Layer normalization (Ba et al. 2016) with its gradient written out."""

    def call(self, inputs: tf.Tensor) -> tf.Tensor:
        """Normalizes the last axis.

        Args:
          inputs: float32[..., hidden].
        """
        rows = normalize(
            _rows(tf.cast(inputs, self.compute_dtype)),
            tf.convert_to_tensor(self.gamma),
            tf.convert_to_tensor(self.beta),
            tf.constant(self.epsilon, self.compute_dtype),
        )
        outputs = tf.reshape(rows, tf.shape(inputs))
        outputs.set_shape(inputs.shape)
        return outputs


class Dropout(tf_keras.layers.Dropout):
    """Dropout whose mask takes 16 random bits an element.

    Upstream draws a float of 32 bits for each: twice the random numbers.
    """

    def call(self, inputs: tf.Tensor, training: Any = None) -> tf.Tensor:
        """Drops elements out in training.

        Args:
          inputs: Of any shape.
          training: Whether to.
        """
        # A TPU lays tensors out by their last two axes, which suits no bit cast.
        strategy = tf.distribute.get_strategy()
        is_tpu = isinstance(strategy, tf.distribute.TPUStrategy)
        if training is not True or not self.rate:
            return super().call(inputs, training=training)
        if is_tpu:
            return tf.nn.experimental.stateless_dropout(
                inputs, self.rate, seed=draw_seed()
            )
        return inputs * dropout_mask(tf.shape(inputs), self.rate, inputs.dtype)


def dropout_mask(shape: tf.Tensor, rate: float, dtype: tf.DType) -> tf.Tensor:
    """Draws what inputs are multiplied with to drop some of them out.

    Args:
      shape: Of the inputs, int32[rank].
      rate: The part that is dropped out; it is met to 16 bits.
      dtype: Of the inputs.

    Returns:
      0 or `1 / (1 - rate)`, of that shape and type.
    """
    values = 1 << _DROPOUT_BITS
    dropped = round(rate * values)
    size = tf.reduce_prod(shape)
    bits = tf.random.stateless_uniform(
        [(size + 3) // 4],
        seed=draw_seed(),
        minval=None,
        maxval=None,
        dtype=tf.uint64,
    )
    draws = tf.reshape(tf.bitcast(bits, tf.uint16), [-1])[:size]
    kept = tf.cast(draws >= tf.constant(dropped, tf.uint16), dtype)
    return tf.reshape(kept, shape) * tf.constant(values / (values - dropped), dtype)


@tf.custom_gradient
def normalize(
    rows: tf.Tensor, gamma: tf.Tensor, beta: tf.Tensor, epsilon: tf.Tensor
) -> tuple[tf.Tensor, Gradient]:
    """Normalizes rows.

    Args:
      rows: float32[rows, hidden].
      gamma: Scale float32[hidden].
      beta: Offset float32[hidden].
      epsilon: Added to the variance, float32[].

    Returns:
      float32[rows, hidden].
    """
    centered = rows - tf.reduce_mean(rows, axis=-1, keepdims=True)
    variance = tf.reduce_mean(tf.square(centered), axis=-1, keepdims=True)
    inverse = tf.math.rsqrt(variance + epsilon)
    normalized = centered * inverse

    def gradient(upstream: tf.Tensor) -> tuple[tf.Tensor | None, ...]:
        scaled = upstream * gamma
        mean = tf.reduce_mean(scaled, axis=-1, keepdims=True)
        along = tf.reduce_mean(scaled * normalized, axis=-1, keepdims=True)
        return (
            (scaled - mean - normalized * along) * inverse,
            tf.reduce_sum(upstream * normalized, axis=0),
            tf.reduce_sum(upstream, axis=0),
            None,
        )

    return normalized * gamma + beta, gradient


@tf.custom_gradient
def gelu(inputs: tf.Tensor) -> tuple[tf.Tensor, Gradient]:
    """Applies the Gaussian error linear unit (Hendrycks and Gimpel 2016).

    Args:
      inputs: float[...].
    """
    probability = 0.5 * tf.math.erf(inputs * math.sqrt(0.5)) + 0.5

    def gradient(upstream: tf.Tensor) -> tf.Tensor:
        density = tf.exp(-0.5 * tf.square(inputs))
        slope = probability + inputs / math.sqrt(2 * math.pi) * density
        return upstream * slope

    return inputs * probability, gradient


@tf.custom_gradient
def approximate_gelu(inputs: tf.Tensor) -> tuple[tf.Tensor, Gradient]:
    """Applies the unit's approximation by a hyperbolic tangent, as Google's BERT does.

    Args:
      inputs: float[...].
    """
    cubic = 0.044715 * _ROOT_2_OVER_PI
    squared = tf.square(inputs)
    tangent = tf.tanh(inputs * (_ROOT_2_OVER_PI + cubic * squared))
    weight = 0.5 + 0.5 * tangent

    def gradient(upstream: tf.Tensor) -> tf.Tensor:
        inner = _ROOT_2_OVER_PI + 3 * cubic * squared
        slope = weight + 0.5 * inputs * (1 - tf.square(tangent)) * inner
        return upstream * slope

    return inputs * weight, gradient


def _by_head(
    hidden: tf.Tensor, dense: tf_keras.layers.EinsumDense, scale: float | None = None
) -> tf.Tensor:
    """Projects hidden states to [batch, heads, seq_len, key_dim]."""
    projected = _project(_rows(hidden), dense)
    if scale is not None:
        projected *= scale
    shape, (_, heads, size) = tf.shape(hidden), dense.kernel.shape
    if _is_training():
        by_head = tf.reshape(projected, [shape[0], shape[1], heads, size])
        return tf.transpose(by_head, [0, 2, 1, 3])
    # oneDNN sets a transposition up anew each time, which a single row would feel.
    joined = tf.reshape(projected, [shape[0], shape[1], heads * size])
    return tf.stack(tf.split(joined, heads, axis=2), axis=1)


def _join_heads(context: tf.Tensor) -> tf.Tensor:
    """Turns [batch, heads, seq_len, key_dim] into rows of tokens."""
    _, heads, _, size = context.shape
    if _is_training():
        joined = tf.transpose(context, [0, 2, 1, 3])
    else:
        joined = tf.concat(tf.unstack(context, num=heads, axis=1), axis=2)
    return tf.reshape(joined, [-1, heads * size])


def _is_training() -> bool:
    # Upstream's blocks are not told; Keras hands it to the layers in them.
    return base_layer_utils.call_context().training is True


def _project(rows: tf.Tensor, dense: tf_keras.layers.Layer) -> tf.Tensor:
    width = rows.shape[-1]
    kernel, bias = tf.reshape(dense.kernel, [width, -1]), tf.reshape(dense.bias, [-1])
    rows = tf.cast(rows, kernel.dtype)  # a normalization's are float32
    return tf.nn.bias_add(tf.matmul(rows, kernel), bias)


def _rows(tensor: tf.Tensor) -> tf.Tensor:
    return tf.reshape(tensor, [-1, tensor.shape[-1]])
