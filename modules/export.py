"""The model that is shipped: raw text in, classes and probabilities out."""

from __future__ import annotations

import tensorflow as tf
import tensorflow_transform as tft
import tf_keras

from modules import preprocessing, slicing
from pipeline.task import TaskConfig

SERVING_DEFAULT = "serving_default"
SERVE_EXAMPLES = "serve_examples"
TRANSFORM_FEATURES = "transform_features"
SLICE_FEATURES = "slice_features"
EXAMPLES = "examples"

# The encoder sees so many rows at a time, which bounds its memory on any batch:
# TFMA sends up to 1,000 rows and has no setting for it.
_ROWS_AT_A_TIME = 64


def export_model(
    model: tf_keras.Model,
    transform: tft.TFTransformOutput,
    task: TaskConfig,
    directory: str,
) -> None:
    """Writes a SavedModel that needs nothing but itself.

    Args:
      model: The trained classifier, from the encoder's inputs to logits.
      transform: Transform's graph, which the model runs on raw text.
      task: Names the inputs and the classes.
      directory: Where the SavedModel is written.
    """
    serving = ServingModel(model, transform, task)
    tf.saved_model.save(serving, directory, signatures=serving.signatures())


class ServingModel(tf.Module):
    """A classifier with the graph that prepares its inputs."""

    def __init__(
        self, model: tf_keras.Model, transform: tft.TFTransformOutput, task: TaskConfig
    ) -> None:
        """Keeps what is exported.

        Args:
          model: The trained classifier.
          transform: Transform's graph.
          task: Names the inputs and the classes.
        """
        super().__init__()
        self._model = model
        self._transform_layer = transform.transform_features_layer()
        self._task = task

    @tf.function(input_signature=[])
    def text_columns(self) -> tf.Tensor:
        """Returns the names of the text columns in order, string[2].

        A loaded signature has lost the order of its arguments.
        """
        return tf.constant(self._task.text_columns)

    def signatures(self) -> dict[str, tf.types.experimental.ConcreteFunction]:
        """Traces the signatures.

        Returns:
          `serving_default`, of one string[batch] a text column, and `serve_examples`,
          of serialized `tf.Example`s string[batch], both to `logits` and
          `probabilities` float32[batch, classes], `class_id` int64[batch] and `class`
          string[batch]; `transform_features` and `slice_features`, of Examples.
        """
        columns = [
            tf.TensorSpec([None], tf.string, name=column)
            for column in self._task.text_columns
        ]
        examples = tf.TensorSpec([None], tf.string, name=EXAMPLES)
        return {
            SERVING_DEFAULT: tf.function(self._serve).get_concrete_function(*columns),
            SERVE_EXAMPLES: tf.function(self._serve_examples).get_concrete_function(
                examples
            ),
            TRANSFORM_FEATURES: tf.function(
                self._transform_features
            ).get_concrete_function(examples),
            SLICE_FEATURES: tf.function(self._slice_features).get_concrete_function(
                examples
            ),
        }

    def _serve(self, first: tf.Tensor, second: tf.Tensor) -> dict[str, tf.Tensor]:
        logits = self._logits(*self._tokens(first, second))
        class_id = tf.argmax(logits, axis=-1)
        return {
            "logits": logits,
            "probabilities": tf.nn.softmax(logits),
            "class_id": class_id,
            "class": tf.gather(tf.constant(self._task.classes), class_id),
        }

    def _serve_examples(self, examples: tf.Tensor) -> dict[str, tf.Tensor]:
        return self._serve(*self._parse(examples))

    def _transform_features(self, examples: tf.Tensor) -> dict[str, tf.Tensor]:
        return preprocessing.pad_inputs(*self._tokens(*self._parse(examples)))

    def _slice_features(self, examples: tf.Tensor) -> dict[str, tf.Tensor]:
        return slicing.slice_features(*self._parse(examples))

    def _parse(self, examples: tf.Tensor) -> list[tf.Tensor]:
        text = tf.io.FixedLenFeature([], tf.string)
        columns = self._task.text_columns
        features = tf.io.parse_example(examples, dict.fromkeys(columns, text))
        return [features[name] for name in columns]

    def _tokens(
        self, first: tf.Tensor, second: tf.Tensor
    ) -> tuple[tf.RaggedTensor, tf.RaggedTensor]:
        columns = zip(self._task.text_columns, (first, second), strict=True)
        raw = {name: tf.reshape(text, [-1, 1]) for name, text in columns}
        features = self._transform_layer(raw)
        word_ids, type_ids = (
            tf.RaggedTensor.from_sparse(features[name])
            for name in (preprocessing.INPUT_WORD_IDS, preprocessing.INPUT_TYPE_IDS)
        )
        return word_ids, type_ids

    def _logits(
        self, word_ids: tf.RaggedTensor, type_ids: tf.RaggedTensor
    ) -> tf.Tensor:
        rows = word_ids.nrows(out_type=tf.int32)
        # A TensorArray, because an empty batch must give empty logits.
        logits = tf.TensorArray(
            tf.float32,
            size=0,
            dynamic_size=True,
            infer_shape=False,
            element_shape=[None, len(self._task.classes)],
        )

        def predict_rows(start: tf.Tensor, logits: tf.TensorArray) -> tuple:
            end = start + _ROWS_AT_A_TIME
            inputs = preprocessing.pad_inputs(word_ids[start:end], type_ids[start:end])
            chunk = self._model(inputs, training=False)
            return end, logits.write(logits.size(), chunk)

        _, logits = tf.while_loop(
            lambda start, _: start < rows, predict_rows, (tf.constant(0), logits)
        )
        return logits.concat()
