"""The trained model's answer, traced once for all who ask."""

from __future__ import annotations

import tensorflow as tf
import tf_keras

from modules.preprocessing import ENCODER_INPUTS


class TracedModel:
    """A model whose answer is traced once, whoever asks for it."""

    def __init__(self, model: tf_keras.Model) -> None:
        """Traces nothing yet.

        Args:
          model: On one device; it takes the encoder's inputs int32[batch, seq_len].
        """
        self.model = model
        specs = {name: tf.TensorSpec([None, None], tf.int32) for name in ENCODER_INPUTS}
        self._answer = tf.function(
            lambda features: model(features, training=False),
            input_signature=[specs],
            autograph=False,
        )

    def __call__(
        self, features: dict[str, tf.Tensor], training: bool = False
    ) -> tf.Tensor:
        """Answers as the model does outside of training."""
        assert not training
        return self._answer(features)
