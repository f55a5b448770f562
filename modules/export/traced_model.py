"""The trained model, traced once for export and predictions."""

from __future__ import annotations

import tensorflow as tf
import tf_keras

from modules.data.inputs import ExamplesConfig
from modules.data.preprocessing import ENCODER_INPUTS, INPUT_MASK
from modules.encoder.window_classifier import WindowClassifier

# The encoder runs on chunks of this many rows, or windows of long texts, two of them in
# parallel. Rows of similar length need little padding, and idle cores work on another
# chunk. Memory is bounded on any batch: TFMA sends up to 1,000 rows, and no setting
# changes that.
_ROWS_AT_A_TIME = 16


class TracedModel:
    """A model's inference, traced once for all callers.

    Args:
      model: On one device; it takes the encoder's inputs int32[batch, seq_len].
    """

    def __init__(self, model: tf_keras.Model) -> None:
        self.model = model
        specs = {name: tf.TensorSpec([None, None], tf.int32) for name in ENCODER_INPUTS}
        has_windows = isinstance(model, WindowClassifier)
        classify = model.classify_windows if has_windows else model
        self._predict_chunk = tf.function(
            lambda features: tf.cast(classify(features, training=False), tf.float32),
            input_signature=[specs],
            autograph=False,
        )
        self._predict = tf.function(
            self._predict_windows if has_windows else self._predict_in_chunks,
            input_signature=[specs],
            autograph=False,
        )

    def __call__(
        self, features: dict[str, tf.Tensor], training: bool = False
    ) -> tf.Tensor:
        """Predicts as the model does with `training=False`.

        Args:
          features: The encoder's inputs, int32[batch, seq_len]; any batch size.
          training: Must be False; Keras models have this argument.

        Returns:
          The model's outputs, float32[batch, outputs].
        """
        assert not training
        return self._predict(features)

    def _predict_windows(self, features: dict[str, tf.Tensor]) -> tf.Tensor:
        windows = self.model.split(features)
        return self.model.pool(self._predict_in_chunks(windows.features), windows)

    def _predict_in_chunks(self, features: dict[str, tf.Tensor]) -> tf.Tensor:
        lengths = tf.reduce_sum(features[INPUT_MASK], axis=1)
        order = tf.argsort(lengths)
        features = {name: tf.gather(ids, order) for name, ids in features.items()}
        longest = tf.gather(lengths, order)
        rows = tf.size(order)
        chunks = -(-rows // _ROWS_AT_A_TIME)
        # A TensorArray, because an empty batch must give an empty result. Its size is
        # fixed, because TensorFlow 2.12 fails on arrays that grow.
        outputs = tf.TensorArray(
            tf.float32,
            size=chunks,
            infer_shape=False,
            element_shape=self._predict_chunk.get_concrete_function().output_shapes,
        )

        def predict_rows(index: tf.Tensor, outputs: tf.TensorArray) -> tuple:
            start = index * _ROWS_AT_A_TIME
            end = tf.minimum(start + _ROWS_AT_A_TIME, rows)
            length = longest[end - 1]
            chunk = {name: ids[start:end, :length] for name, ids in features.items()}
            return index + 1, outputs.write(index, self._predict_chunk(chunk))

        _, outputs = tf.while_loop(
            lambda index, _: index < chunks,
            predict_rows,
            (tf.constant(0), outputs),
            parallel_iterations=2,
        )
        return tf.gather(outputs.concat(), tf.math.invert_permutation(order))


def in_large_batches(data: ExamplesConfig) -> ExamplesConfig:
    """Returns a split in batches of several chunks, which keep all cores busy."""
    return data.replace(global_batch_size=8 * _ROWS_AT_A_TIME)
