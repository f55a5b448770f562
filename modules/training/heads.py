"""The head of each label kind: loss, activation, Keras metric and served outputs."""

from __future__ import annotations

import abc
from typing import Any, NamedTuple

import numpy as np
import tensorflow as tf
import tf_keras
from scipy import special

from contracts import metrics
from contracts.task import label_cells
from contracts.task.classes import Classes
from contracts.task.label_kind import LabelKind
from contracts.task.score import Score
from contracts.task.several_labels import SeveralLabels
from contracts.versions import exported_model


class ScoreScale(NamedTuple):
    """The mean and the standard deviation that standardize scores.

    Attributes:
      mean: In the units of the scores.
      std: In the units of the scores, above 0.
    """

    mean: float = 0.0
    std: float = 1.0


class ScoreProjection(tf_keras.layers.Dense):
    """A dense layer to a standardized score, which it returns in the scores' units."""

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


class Head(abc.ABC):
    """The output head: loss, activation and outputs."""

    def __init__(self, kind: LabelKind, scale: ScoreScale) -> None:
        self._kind = kind
        self._scale = scale

    def build_projection(
        self, initializer: tf_keras.initializers.Initializer
    ) -> tf_keras.layers.Layer | None:
        """Builds the last layer; None for the one of the Model Garden."""
        del initializer
        return None

    @property
    def description(self) -> dict[str, Any]:
        """Entries of the model description."""
        return {}

    @abc.abstractmethod
    def metric(self) -> tf_keras.metrics.Metric:
        """Returns the metric that is updated at each step."""

    @abc.abstractmethod
    def losses(self, labels: tf.Tensor, logits: tf.Tensor) -> tf.Tensor:
        """Returns losses float32[batch], or float32[batch, labels] of several labels.

        Args:
          labels: int64[batch], int64[batch, labels] or float32[batch].
          logits: float32[batch, outputs].
        """

    def weighted_losses(
        self, labels: tf.Tensor, logits: tf.Tensor, weights: tf.Tensor
    ) -> tf.Tensor:
        """Returns `losses` times the weight of each label.

        Args:
          labels: As for `losses`.
          logits: As for `losses`.
          weights: The weight of each group of the label kind, float32[weight_groups].
        """
        return self.losses(labels, logits) * tf.gather(weights, labels)

    def scale_gradient(self, loss: tf.Tensor) -> tf.Tensor:
        """Returns the loss float32[], with another gradient where training needs it."""
        return loss

    @abc.abstractmethod
    def activate(self, logits: tf.Tensor) -> tf.Tensor:
        """Returns what an evaluation collects from logits float32[batch, outputs]."""

    def finish(self, collected: np.ndarray) -> np.ndarray:
        """Returns probabilities or scores from what `activate` has returned."""
        return collected

    @abc.abstractmethod
    def serve(
        self, logits: tf.Tensor, temperature: tf.Tensor, threshold: tf.Tensor | None
    ) -> dict[str, tf.Tensor]:
        """Returns the outputs of the exported model.

        Args:
          logits: float32[batch, outputs].
          temperature: Divides logits before they become probabilities, float32[].
          threshold: As in `metrics.Rows.of`.
        """


class ClassesHead(Head):
    """Softmax and cross entropy."""

    def metric(self) -> tf_keras.metrics.Metric:
        """Returns the accuracy."""
        return tf_keras.metrics.SparseCategoricalAccuracy(name="accuracy")

    def losses(self, labels: tf.Tensor, logits: tf.Tensor) -> tf.Tensor:
        """Returns the cross entropy of each row."""
        return tf.nn.sparse_softmax_cross_entropy_with_logits(labels, logits)

    def activate(self, logits: tf.Tensor) -> tf.Tensor:
        """Returns probabilities."""
        return tf.nn.softmax(logits)

    def serve(
        self, logits: tf.Tensor, temperature: tf.Tensor, threshold: tf.Tensor | None
    ) -> dict[str, tf.Tensor]:
        """Returns logits, probabilities and the class."""
        probabilities = tf.nn.softmax(logits / temperature)
        class_id = tf.argmax(logits, axis=-1)
        if threshold is not None:
            positive = probabilities[:, metrics.POSITIVE_CLASS]
            class_id = tf.cast(positive >= threshold, tf.int64)
        return {
            exported_model.LOGITS: logits,
            exported_model.PROBABILITIES: probabilities,
            exported_model.CLASS_ID: class_id,
            exported_model.CLASS: tf.gather(tf.constant(self._kind.names), class_id),
        }


class SeveralLabelsHead(Head):
    """A sigmoid and a cross entropy for each label."""

    @property
    def description(self) -> dict[str, Any]:
        """The separator of several labels in texts."""
        return {exported_model.SEPARATOR: label_cells.SEPARATOR}

    def metric(self) -> tf_keras.metrics.Metric:
        """Returns the accuracy, for which all labels of a row must be right."""
        return tf_keras.metrics.MeanMetricWrapper(_are_all_right, "accuracy")

    def losses(self, labels: tf.Tensor, logits: tf.Tensor) -> tf.Tensor:
        """Returns the cross entropy of each label of each row."""
        labels = tf.cast(labels, tf.float32)
        return tf.nn.sigmoid_cross_entropy_with_logits(labels, logits)

    def weighted_losses(
        self, labels: tf.Tensor, logits: tf.Tensor, weights: tf.Tensor
    ) -> tf.Tensor:
        """Returns losses whose logits fit the unweighted rows.

        The weight of a label multiplies the odds that minimize its part of the loss. So
        the logarithm of the weight is added to the logits in the loss.
        """
        without, having = tf.split(weights, 2)
        losses = self.losses(labels, logits + tf.math.log(having / without))
        return losses * tf.where(labels == 1, having, without)

    def scale_gradient(self, loss: tf.Tensor) -> tf.Tensor:
        """Makes the gradient of the mean over the labels that of their sum.

        The gradients of the mean are as small as AdamW's epsilon if there are many.
        """
        return loss + (self._kind.outputs - 1) * (loss - tf.stop_gradient(loss))

    def activate(self, logits: tf.Tensor) -> tf.Tensor:
        """Returns logits; see `finish`."""
        return logits

    def finish(self, collected: np.ndarray) -> np.ndarray:
        """Returns probabilities float64[rows, labels].

        float32 has few digits just below 1, and a temperature needs all of them.
        """
        return special.expit(collected.astype(np.float64))

    def serve(
        self, logits: tf.Tensor, temperature: tf.Tensor, threshold: tf.Tensor | None
    ) -> dict[str, tf.Tensor]:
        """Returns logits, probabilities and labels."""
        probabilities = tf.sigmoid(logits / temperature)
        least = 0.5 if threshold is None else threshold
        return {
            exported_model.LOGITS: logits,
            exported_model.PROBABILITIES: probabilities,
            exported_model.LABELS: tf.cast(probabilities >= least, tf.int64),
        }


class ScoreHead(Head):
    """A linear layer and the squared error of standardized scores."""

    @property
    def description(self) -> dict[str, Any]:
        """The scale of the scores."""
        return {exported_model.SCORE_SCALE: list(self._scale)}

    def build_projection(
        self, initializer: tf_keras.initializers.Initializer
    ) -> ScoreProjection:
        """Builds a layer whose output has the units of the labels."""
        return ScoreProjection(
            self._scale, kernel_initializer=initializer, name="logits"
        )

    def metric(self) -> tf_keras.metrics.Metric:
        """Returns the mean squared error."""
        return tf_keras.metrics.MeanSquaredError(name="mse")

    def losses(self, labels: tf.Tensor, logits: tf.Tensor) -> tf.Tensor:
        """Returns the squared error of each row, in standard deviations."""
        return tf.square((labels - logits[:, 0]) / self._scale.std)

    def weighted_losses(
        self, labels: tf.Tensor, logits: tf.Tensor, weights: tf.Tensor
    ) -> tf.Tensor:
        """Returns losses times the one weight of all rows."""
        return self.losses(labels, logits) * weights

    def activate(self, logits: tf.Tensor) -> tf.Tensor:
        """Returns scores."""
        return logits[:, 0]

    def serve(
        self, logits: tf.Tensor, temperature: tf.Tensor, threshold: tf.Tensor | None
    ) -> dict[str, tf.Tensor]:
        """Returns the score."""
        return {exported_model.SCORE: tf.squeeze(logits, -1)}


_HEADS: dict[type[LabelKind], type[Head]] = {
    Classes: ClassesHead,
    SeveralLabels: SeveralLabelsHead,
    Score: ScoreHead,
}


def build_head(kind: LabelKind, scale: ScoreScale) -> Head:
    """Builds the head of a label kind."""
    return _HEADS[type(kind)](kind, scale)


def _are_all_right(labels: tf.Tensor, logits: tf.Tensor) -> tf.Tensor:
    return tf.reduce_all((logits >= 0) == (labels == 1), axis=-1)
