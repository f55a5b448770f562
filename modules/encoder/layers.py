"""The layers of BERT's encoder, in a few large operations.

Variable names, the attributes that lead to them in a checkpoint, and the results are
those of `official.nlp.modeling.layers.TransformerEncoderBlock`. On a CPU, elementwise
operations took two fifths of its training step. Each is a pass over the batch.
"""

from __future__ import annotations

import contextlib
import contextvars
import functools
import itertools
import math
from collections.abc import Callable, Iterator, Mapping
from typing import Any

import tensorflow as tf
import tf_keras

_ROOT_2_OVER_PI = math.sqrt(2 / math.pi)

# Seeds of dropout masks follow from the training step. TensorFlow cannot save the state
# of its random operations, so a resumed training would drop out other units than an
# uninterrupted one.
_next_seed: contextvars.ContextVar[Callable[[], tf.Tensor] | None] = (
    contextvars.ContextVar("next_seed", default=None)
)

Activation = Callable[[tf.Tensor], tf.Tensor]
Gradient = Callable[..., Any]
Config = Mapping[str, Any]


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
    """Applies the unit's approximation by a tanh, as Google's BERT does."""
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


def initializer(config: Config) -> tf_keras.initializers.Initializer:
    """Returns a new initializer of kernels; a shared one would repeat its values."""
    return tf_keras.initializers.TruncatedNormal(stddev=config["initializer_range"])


class Projection(tf_keras.layers.Layer):
    """A dense layer over rows of tokens.

    Args:
      inputs: Stored shape of the input axes; attention keeps its heads as an axis.
      outputs: Stored shape of the output axes.
      initializer: Initializer of the kernel.
      name: Name of the layer.
    """

    def __init__(
        self,
        inputs: tuple[int, ...],
        outputs: tuple[int, ...],
        initializer: tf_keras.initializers.Initializer,
        name: str,
    ) -> None:
        super().__init__(name=name)
        self._input_axes, self._output_axes = inputs, outputs
        self._initializer = initializer

    def build(self, input_shape: tf.TensorShape) -> None:
        """Creates the variables."""
        self.kernel = self.add_weight(
            "kernel",
            self._input_axes + self._output_axes,
            initializer=self._initializer,
        )
        self.bias = self.add_weight("bias", self._output_axes, initializer="zeros")
        super().build(input_shape)

    def call(self, rows: tf.Tensor) -> tf.Tensor:
        """Projects float[rows, inputs] to float[rows, outputs]."""
        kernel = tf.reshape(self.kernel, [rows.shape[-1], -1])
        return add_bias(tf.matmul(rows, kernel), tf.reshape(self.bias, [-1]))


class SelfAttention(tf_keras.layers.Layer):
    """Multi-head attention (Vaswani et al. 2017)."""

    def __init__(self, config: Config, dropout: float, name: str) -> None:
        super().__init__(name=name)
        hidden, heads = (config["hidden_size"],), config["num_attention_heads"]
        by_head = (heads, config["hidden_size"] // heads)
        self._by_head = by_head
        self._query_dense, self._key_dense, self._value_dense = (
            Projection(hidden, by_head, initializer(config), name)
            for name in ("query", "key", "value")
        )
        self._softmax = tf_keras.layers.Softmax()
        self._dropout_layer = Dropout(dropout)
        self._output_dense = Projection(
            by_head, hidden, initializer(config), "attention_output"
        )

    def call(
        self,
        hidden: tf.Tensor,
        target: tf.Tensor,
        mask: tf.Tensor,
        training: bool | None = None,
    ) -> tf.Tensor:
        """Attends from the target positions to all positions.

        Args:
          hidden: Hidden states, float[batch, seq_len, hidden].
          target: Hidden states of the target, float[batch, target_len, hidden].
          mask: 1 where attention is allowed, float[batch, target_len, seq_len].
          training: Whether dropout applies.

        Returns:
          Rows of tokens, float[batch * target_len, hidden].
        """
        scale = 1 / math.sqrt(self._by_head[1])
        query = self._query_dense(_rows(target)) * scale
        key, value = self._key_dense(_rows(hidden)), self._value_dense(_rows(hidden))
        scores = tf.matmul(
            self._split_heads(query, target, training),
            self._split_heads(key, hidden, training),
            transpose_b=True,
        )
        probabilities = self._softmax(scores, mask[:, tf.newaxis])
        context = tf.matmul(
            self._dropout_layer(probabilities),
            self._split_heads(value, hidden, training),
        )
        heads, size = self._by_head
        if training is True:
            joined = tf.transpose(context, [0, 2, 1, 3])
        else:  # as in `_split_heads`, without a transposition
            joined = tf.concat(tf.unstack(context, num=heads, axis=1), axis=2)
        return self._output_dense(tf.reshape(joined, [-1, heads * size]))

    def _split_heads(
        self, rows: tf.Tensor, states: tf.Tensor, training: bool | None
    ) -> tf.Tensor:
        """Turns rows of tokens into [batch, heads, seq_len, head_size]."""
        shape, (heads, size) = tf.shape(states), self._by_head
        if training is True:
            by_head = tf.reshape(rows, [shape[0], shape[1], heads, size])
            return tf.transpose(by_head, [0, 2, 1, 3])
        # oneDNN sets up each transposition again. For a single row, this takes longer
        # than the transposition itself.
        joined = tf.reshape(rows, [shape[0], shape[1], heads * size])
        return tf.stack(tf.split(joined, heads, axis=2), axis=1)


class EncoderBlock(tf_keras.layers.Layer):
    """A Transformer block that normalizes after attention and feed-forward layers."""

    def __init__(
        self,
        config: Config,
        activation: Activation,
        dropout: float,
        attention_dropout: float,
        name: str,
    ) -> None:
        super().__init__(name=name)
        hidden, inner = (config["hidden_size"],), (config["intermediate_size"],)
        norm = {"epsilon": config["layer_norm_eps"], "dtype": tf.float32}
        self._attention_layer = SelfAttention(
            config, attention_dropout, "self_attention"
        )
        self._attention_dropout = Dropout(dropout)
        self._attention_layer_norm = LayerNormalization(
            name="self_attention_layer_norm", **norm
        )
        self._intermediate_dense = Projection(
            hidden, inner, initializer(config), "intermediate"
        )
        policy = tf_keras.mixed_precision.global_policy()
        # As in the Model Garden: with bfloat16, training with LAMB converged worse.
        is_bfloat16 = policy.compute_dtype == "bfloat16"
        self._intermediate_activation_layer = ElementwiseActivation(
            activation, dtype=tf.float32 if is_bfloat16 else policy, autocast=False
        )
        self._output_dense = Projection(inner, hidden, initializer(config), "output")
        self._output_dropout = Dropout(dropout)
        self._output_layer_norm = LayerNormalization(name="output_layer_norm", **norm)

    def call(
        self, inputs: list[tf.Tensor], output_range: int | None = None
    ) -> tf.Tensor:
        """Applies attention and the feed-forward layer.

        Args:
          inputs: Hidden states float[batch, seq_len, hidden] and the attention mask,
            1 where attention is allowed, float[batch, seq_len, seq_len].
          output_range: Positions to compute, from the first; None is all.

        Returns:
          Hidden states float32[batch, output_range or seq_len, hidden].
        """
        hidden, mask = inputs
        target = hidden[:, :output_range] if output_range else hidden
        shape = tf.shape(target)
        # From here on tokens are independent of each other, so they are rows.
        attended = self._attention_layer(hidden, target, mask[:, :output_range])
        attended = self._attention_dropout(attended)
        attended = self._attention_layer_norm(_rows(target) + attended)
        inner = self._intermediate_activation_layer(self._intermediate_dense(attended))
        output = self._output_dropout(self._output_dense(inner))
        output = self._output_layer_norm(tf.cast(output, tf.float32) + attended)
        return tf.reshape(output, [shape[0], shape[1], target.shape[-1]])


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
    """Dropout whose mask takes 16 random bits per element.

    Keras draws a float of 32 bits for each, which takes twice the random bits.
    """

    def call(self, inputs: tf.Tensor, training: Any = None) -> tf.Tensor:
        """Drops elements out in training.

        Args:
          inputs: A tensor of any shape.
          training: Whether dropout applies.
        """
        # A TPU lays tensors out by their last two axes, so a bit cast does not fit.
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
    """Draws the factors of dropout, by which inputs are multiplied.

    Args:
      shape: Shape of the inputs, int32[rank].
      rate: Dropout rate; it is rounded to 16 bits.
      dtype: Type of the inputs.

    Returns:
      A tensor of 0 and `1 / (1 - rate)` with that shape and type.
    """
    values = 1 << 16
    dropped = min(round(rate * values), values - 1)
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


@contextlib.contextmanager
def seeds_at_step(seed: int, step: tf.Variable) -> Iterator[None]:
    """Derives the seeds drawn in the context from a seed, the step and the replica.

    Args:
      seed: Seed of the training.
      step: Steps taken so far, int64[].
    """
    base = tf.random.stateless_uniform(
        [2],
        seed=tf.stack([tf.constant(seed, tf.int64), tf.cast(step, tf.int64)]),
        minval=None,
        maxval=None,
        dtype=tf.int64,
    )
    with seeds_from(base):
        yield


@contextlib.contextmanager
def seeds_from(base: tf.Tensor) -> Iterator[None]:
    """Derives the seeds drawn in the context from another seed and the replica."""
    replica = tf.distribute.get_replica_context().replica_id_in_sync_group
    # Numbers the layers as they are traced, always in the same order.
    layers = itertools.count()

    def next_seed() -> tf.Tensor:
        layer = tf.constant(next(layers), tf.int64)
        return base + tf.stack([layer, tf.cast(replica, tf.int64)])

    token = _next_seed.set(next_seed)
    try:
        yield
    finally:
        _next_seed.reset(token)


def draw_seed() -> tf.Tensor:
    """Returns a seed for a stateless random operation, int[2].

    Outside of `seeds_at_step` the seed follows from TensorFlow's global seed.
    """
    next_seed = _next_seed.get()
    if next_seed is not None:
        return next_seed()
    return tf.random.uniform([2], maxval=tf.int32.max, dtype=tf.int32)


@tf.custom_gradient
def add_bias(rows: tf.Tensor, bias: tf.Tensor) -> tuple[tf.Tensor, Gradient]:
    """Adds a bias, whose gradient is a matrix product: faster than `BiasAddGrad`."""

    def gradient(upstream: tf.Tensor) -> tuple[tf.Tensor, tf.Tensor]:
        ones = tf.ones([1, tf.shape(upstream)[0]], upstream.dtype)
        return upstream, tf.matmul(ones, upstream)[0]

    return tf.nn.bias_add(rows, bias), gradient


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


def _rows(tensor: tf.Tensor) -> tf.Tensor:
    return tf.reshape(tensor, [-1, tensor.shape[-1]])
