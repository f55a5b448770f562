"""The trained model is traced once for export and predictions."""

import numpy as np
import pytest
import tensorflow as tf
import tf_keras

from modules.data import preprocessing
from modules.export.serving_model import TracedModel

pytestmark = pytest.mark.slow


class Counted(tf_keras.Model):
    """Counts how often it is traced."""

    traces = 0

    def call(self, inputs, training=None):
        Counted.traces += 1
        ids = tf.cast(inputs[preprocessing.INPUT_WORD_IDS], tf.float32)
        total = tf.reduce_sum(ids, axis=1)
        return tf.stack([total, -total], axis=1)


def features(length):
    ids = tf.ones([2, length], tf.int32)
    return dict.fromkeys(preprocessing.ENCODER_INPUTS, ids)


def test_one_trace_serves_batches_of_any_length_and_other_functions():
    model = TracedModel(Counted())
    call = tf.function(lambda length: model(features(length)))
    outputs = [model(features(3)), model(features(5)), call(tf.constant(7))]
    np.testing.assert_array_equal([output[0, 0] for output in outputs], [3, 5, 7])
    assert Counted.traces == 1


@pytest.mark.parametrize("rows", [0, 1, 8, 21])
def test_outputs_are_in_the_order_of_the_rows(rows):
    lengths = np.random.default_rng(1).integers(1, 9, rows)
    ids = np.arange(8) < lengths[:, None]
    batch = dict.fromkeys(preprocessing.ENCODER_INPUTS, ids.astype(np.int32))
    outputs = TracedModel(Counted())(batch)
    np.testing.assert_array_equal(outputs, np.stack([lengths, -lengths], axis=1))
