"""The trained model's answer, traced once for all who ask."""

from __future__ import annotations

import tensorflow as tf
import tf_keras

from modules.data.inputs import ExamplesConfig
from modules.data.preprocessing import ENCODER_INPUTS, INPUT_MASK

# The encoder sees so many rows at a time, in some chunks side by side: rows of like
# length are padded little, cores that one chunk leaves idle work on another, and memory
# is bounded on any batch, as TFMA sends up to 1,000 rows and has no setting for it.
_ROWS_AT_A_TIME = 16
_CHUNKS_AT_ONCE = 2
_LARGE_BATCH = 8 * _ROWS_AT_A_TIME  # rows


class TracedModel:
    """A model whose answer is traced once, whoever asks for it."""

    def __init__(self, model: tf_keras.Model) -> None:
        """Traces nothing yet.

        Args:
          model: On one device; it takes the encoder's inputs int32[batch, seq_len].
        """
        self.model = model
        specs = {name: tf.TensorSpec([None, None], tf.int32) for name in ENCODER_INPUTS}
        self._answer_chunk = tf.function(
            lambda features: model(features, training=False),
            input_signature=[specs],
            autograph=False,
        )
        self._answer = tf.function(
            self._answer_in_chunks, input_signature=[specs], autograph=False
        )

    def __call__(
        self, features: dict[str, tf.Tensor], training: bool = False
    ) -> tf.Tensor:
        """Answers as the model does outside of training.

        Args:
          features: The encoder's inputs, int32[batch, seq_len]; the batch of any size.
          training: Not what this is for.

        Returns:
          What the model gives, float32[batch, outputs].
        """
        assert not training
        return self._answer(features)

    def _answer_in_chunks(self, features: dict[str, tf.Tensor]) -> tf.Tensor:
        # Rows of like length go together, and are padded to the longest of few.
        lengths = tf.reduce_sum(features[INPUT_MASK], axis=1)
        order = tf.argsort(lengths)
        features = {name: tf.gather(ids, order) for name, ids in features.items()}
        longest = tf.gather(lengths, order)
        rows = tf.size(order)
        chunks = -(-rows // _ROWS_AT_A_TIME)
        # A TensorArray, because an empty batch must give an empty answer; of a fixed
        # size, because TensorFlow 2.12 fails at those that grow.
        answers = tf.TensorArray(
            tf.float32,
            size=chunks,
            infer_shape=False,
            element_shape=self._answer_chunk.get_concrete_function().output_shapes,
        )

        def answer_rows(index: tf.Tensor, answers: tf.TensorArray) -> tuple:
            start = index * _ROWS_AT_A_TIME
            end = tf.minimum(start + _ROWS_AT_A_TIME, rows)
            length = longest[end - 1]
            chunk = {name: ids[start:end, :length] for name, ids in features.items()}
            return index + 1, answers.write(index, self._answer_chunk(chunk))

        _, answers = tf.while_loop(
            lambda index, _: index < chunks,
            answer_rows,
            (tf.constant(0), answers),
            parallel_iterations=_CHUNKS_AT_ONCE,
        )
        return tf.gather(answers.concat(), tf.math.invert_permutation(order))


def in_large_batches(data: ExamplesConfig) -> ExamplesConfig:
    """Returns a split in batches of some chunks, which keep all cores busy."""
    return data.replace(global_batch_size=_LARGE_BATCH)
