"""A classifier of long texts: it reads windows, and pools their logits."""

from __future__ import annotations

from typing import Any, NamedTuple

import tensorflow as tf
from official.nlp.modeling import models

from modules.data.preprocessing import INPUT_MASK


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
      has_fixed_shapes: Whether the number of windows of a training batch must follow
        from its shape, for XLA. Otherwise windows without tokens are not computed.
      **kwargs: As for `BertClassifier`.
    """

    def __init__(
        self,
        *args: Any,
        window: int,
        pool: str,
        has_fixed_shapes: bool = False,
        **kwargs: Any,
    ) -> None:
        super().__init__(*args, **kwargs)
        self._window = window
        self._pool = pool
        self._has_fixed_shapes = has_fixed_shapes

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
        return self.pool(self.classify_windows(windows.features, training), windows)

    def classify_windows(
        self, features: dict[str, tf.Tensor], training: Any = None
    ) -> tf.Tensor:
        """Returns the logits of single windows, float32[windows, classes].

        Args:
          features: As in `Windows`.
          training: Whether dropout applies.
        """
        return super().call(features, training=training)

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
