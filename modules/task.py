"""The fine-tuning task, as the Model Garden's trainer sees it."""

from __future__ import annotations

from typing import Any

import tensorflow as tf
import tf_keras
from official.core import base_task
from official.nlp.modeling import models

from modules import encoder as encoder_lib


class PairClassificationTask(base_task.Task):
    """Classifies sentence pairs with a pre-trained encoder and a new head.

    Datasets are built by `modules.inputs` and given to the trainer ready-made.
    """

    def __init__(
        self, *, encoder: encoder_lib.EncoderDirectory, classes: int, dropout: float
    ) -> None:
        """Keeps what the model is built from.

        Args:
          encoder: The pre-trained encoder's directory.
          classes: Number of classes.
          dropout: Rate in the encoder and before the head.
        """
        super().__init__(params=None)
        self._encoder = encoder
        self._classes = classes
        self._dropout = dropout

    def build_model(self) -> models.BertClassifier:
        """Builds the classifier, the encoder's weights untrained.

        Returns:
          A model from the encoder's inputs int32[batch, seq_len] to logits
          float32[batch, classes].
        """
        network = encoder_lib.build_encoder(self._encoder, dropout=self._dropout)
        return models.BertClassifier(
            network=network,
            num_classes=self._classes,
            initializer=tf_keras.initializers.TruncatedNormal(stddev=0.02),
            dropout_rate=self._dropout,
        )

    def initialize(self, model: models.BertClassifier) -> None:
        """Restores the pre-trained encoder; called where no checkpoint is found."""
        encoder_lib.restore_encoder(model.checkpoint_items["encoder"], self._encoder)

    def build_inputs(self, params: Any, input_context: Any = None) -> tf.data.Dataset:
        """Refuses: the trainer is given its datasets."""
        raise NotImplementedError("datasets come from modules.inputs")

    def build_losses(
        self, labels: tf.Tensor, model_outputs: tf.Tensor, aux_losses: Any = None
    ) -> tf.Tensor:
        """Returns the mean cross entropy of a batch, float32[]."""
        losses = tf_keras.losses.sparse_categorical_crossentropy(
            labels, model_outputs, from_logits=True
        )
        return tf.reduce_mean(losses)

    def build_metrics(self, training: bool = True) -> list[tf_keras.metrics.Metric]:
        """Returns the metrics that are shown while it trains."""
        return [tf_keras.metrics.SparseCategoricalAccuracy(name="accuracy")]
