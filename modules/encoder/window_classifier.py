"""A classifier of long texts: it reads windows, and pools their logits."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import tensorflow as tf
import tf_keras
from official.nlp.modeling import models

from modules.data.preprocessing import INPUT_MASK
from modules.encoder.layers import draw_seed, seeds_from


class Windows(NamedTuple):
    """The windows of a batch of texts.

    Attributes:
      features: The encoder's inputs, int32[windows, tokens].
      texts: The index of each window's text in the batch, int32[windows]. Windows of -1
        are padding.
      batch: Number of texts, int32[].
    """

    features: dict[str, tf.Tensor]
    texts: tf.Tensor
    batch: tf.Tensor


class WindowClassifier(models.BertClassifier):
    """A classifier of texts that `preprocessing.pack_segments` packed in windows.

    Its variables and their paths in a checkpoint are those of `BertClassifier`, so each
    can be trained from the other. It takes the encoder's inputs int32[batch, tokens]
    and returns logits float32[batch, classes].

    Args:
      *args: As for `BertClassifier`.
      window: Tokens of a window.
      pool: `mean` or `max`.
      windows_in_memory: Windows that are computed at a time. If a batch has more, all
        chunks but one are computed again for their gradients.
      has_fixed_shapes: Whether the number of windows of a training batch must follow
        from its shape, for XLA. Otherwise windows without tokens are not computed. XLA
        computes all windows at once.
      **kwargs: As for `BertClassifier`.
    """

    def __init__(
        self,
        *args: Any,
        window: int,
        pool: str,
        windows_in_memory: int,
        has_fixed_shapes: bool = False,
        **kwargs: Any,
    ) -> None:
        super().__init__(*args, **kwargs)
        self._window = window
        self._pool = pool
        self._windows_in_memory = windows_in_memory
        self._has_fixed_shapes = has_fixed_shapes
        # Layers take `training` from the model that calls them, but gradients are
        # computed after the call. In a function, the model is not tracked, so that the
        # checkpoints are those of `BertClassifier`.
        of_windows = tf_keras.Model(self.inputs, self.outputs[0])
        self._of_windows = lambda: of_windows

    def call(
        self, inputs: dict[str, tf.Tensor], training: Any = None, mask: Any = None
    ) -> tf.Tensor:
        """Classifies texts.

        Args:
          inputs: The encoder's inputs, int32[batch, tokens].
          training: Whether dropout applies.
          mask: Unused; Keras models have this argument.
        """
        is_tpu = isinstance(tf.distribute.get_strategy(), tf.distribute.TPUStrategy)
        has_fixed_shapes = is_tpu or bool(training and self._has_fixed_shapes)
        windows = self.split(inputs, has_fixed_shapes)
        # Of no chunk, TensorFlow concatenates the logits only in a graph.
        is_whole = has_fixed_shapes or tf.executing_eagerly()
        classify = self.classify_windows if is_whole else self._classify_chunks
        logits = classify(windows.features, training)
        return self.pool(logits, windows)

    def classify_windows(
        self, features: dict[str, tf.Tensor], training: Any = None
    ) -> tf.Tensor:
        """Returns the logits of single windows, float32[windows, classes]."""
        return self._of_windows()(features, training=training)

    def _classify_chunks(
        self, features: dict[str, tf.Tensor], training: Any
    ) -> tf.Tensor:
        """Classifies windows; only of the last chunk it keeps the activations.

        The other chunks are computed again for their gradients. A batch of one chunk is
        computed once.
        """
        names, size = list(features), self._windows_in_memory
        windows = tf.shape(features[INPUT_MASK])[0]
        chunks = tf.maximum(-(-windows // size) - 1, 0)  # without the last
        last = {name: ids[chunks * size :] for name, ids in features.items()}
        last_logits = self.classify_windows(last, training)
        # Both passes of a chunk must drop out the same units.
        seed = tf.cast(draw_seed(), tf.int64)

        def classify(index: tf.Tensor, tensors: Sequence[tf.Tensor]) -> tf.Tensor:
            rows = slice(index * size, (index + 1) * size)
            chunk = {n: ids[rows] for n, ids in zip(names, tensors, strict=True)}
            base = tf.random.stateless_uniform(
                [2],
                seed=seed + tf.cast(index, tf.int64),
                minval=None,
                maxval=None,
                dtype=tf.int64,
            )
            with seeds_from(base):
                return self.classify_windows(chunk, training)

        def loop(body: Callable[..., tuple], state: Any) -> Any:
            _, state = tf.while_loop(
                lambda index, _: index < chunks,
                body,
                (0, state),
                parallel_iterations=1,
            )
            return state

        @tf.custom_gradient
        def classify_others(*tensors: tf.Tensor) -> tuple[tf.Tensor, Any]:
            logits = tf.TensorArray(
                last_logits.dtype,
                chunks,
                infer_shape=False,
                element_shape=last_logits.shape,
            )

            def compute_gradients(
                upstream: tf.Tensor, variables: Sequence[tf.Variable]
            ) -> tuple[list[None], list[tf.Tensor]]:
                def add_chunk(index: tf.Tensor, sums: list[tf.Tensor]) -> tuple:
                    with tf.GradientTape() as tape:
                        outputs = classify(index, tensors)
                    gradients = tape.gradient(
                        outputs,
                        variables,
                        upstream[index * size : (index + 1) * size],
                        unconnected_gradients=tf.UnconnectedGradients.ZERO,
                    )
                    return index + 1, [
                        total + tf.convert_to_tensor(gradient)
                        for total, gradient in zip(sums, gradients, strict=True)
                    ]

                sums = [tf.zeros_like(variable) for variable in variables]
                return [None] * len(tensors), loop(add_chunk, sums)

            logits = loop(
                lambda index, logits: (
                    index + 1,
                    logits.write(index, classify(index, tensors)),
                ),
                logits,
            )
            return logits.concat(), compute_gradients

        others = classify_others(*features.values())
        return tf.concat([others, last_logits], axis=0)

    def split(
        self, inputs: dict[str, tf.Tensor], has_fixed_shapes: bool = False
    ) -> Windows:
        """Returns the windows of texts.

        Args:
          inputs: The encoder's inputs, int32[batch, tokens].
          has_fixed_shapes: Whether windows without tokens are kept.
        """
        batch, length = tf.unstack(tf.shape(inputs[INPUT_MASK]))
        width = tf.clip_by_value(length, 1, self._window)
        count = tf.maximum(-(-length // width), 1)
        paddings = [[0, 0], [0, count * width - length]]
        shape = [batch * count, width]
        features = {
            name: tf.reshape(tf.pad(ids, paddings), shape)
            for name, ids in inputs.items()
        }
        index = tf.range(batch * count)
        # The first counts even without a token: such rows fill a batch, and their
        # logits must be finite.
        is_real = (features[INPUT_MASK][:, 0] > 0) | (index % count == 0)
        texts = index // count
        if has_fixed_shapes:
            return Windows(features, tf.where(is_real, texts, -1), batch)
        features = {
            name: tf.boolean_mask(ids, is_real) for name, ids in features.items()
        }
        return Windows(features, tf.boolean_mask(texts, is_real), batch)

    def pool(self, logits: tf.Tensor, windows: Windows) -> tf.Tensor:
        """Returns the logits of texts, float32[batch, classes].

        Args:
          logits: Those of their windows, float32[windows, classes].
          windows: The windows.
        """
        pool = {
            "mean": tf.math.unsorted_segment_mean,
            "max": tf.math.unsorted_segment_max,
        }[self._pool]
        # It ignores windows of text -1.
        return pool(tf.cast(logits, tf.float32), windows.texts, windows.batch)
