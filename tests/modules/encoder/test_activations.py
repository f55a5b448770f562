"""The activations equal those of Keras, compiled or not."""

import numpy as np
import pytest
import tensorflow as tf
import tf_keras

from modules.encoder import layers


@pytest.mark.parametrize(
    ("ours", "keras"),
    [
        (layers.gelu, tf_keras.activations.gelu),
        (
            layers.approximate_gelu,
            lambda x: tf_keras.activations.gelu(x, approximate=True),
        ),
    ],
)
def test_gelu_and_its_gradient_equal_those_of_keras(ours, keras):
    inputs = tf.constant(np.linspace(-12, 12, 2001), tf.float32)
    results = []
    for function in (ours, keras):
        with tf.GradientTape() as tape:
            tape.watch(inputs)
            outputs = function(inputs)
        results.append((outputs, tape.gradient(outputs, inputs)))
    for mine, theirs in zip(*results, strict=True):
        np.testing.assert_allclose(mine, theirs, atol=1e-5)


@pytest.mark.parametrize("activation", [layers.gelu, layers.approximate_gelu])
@pytest.mark.parametrize(
    ("dtype", "tolerance"), [(tf.float32, 1e-6), (tf.bfloat16, 1e-2)]
)
def test_activation_that_is_compiled_for_training_equals_that_of_inference(
    activation, dtype, tolerance
):
    layer = layers.ElementwiseActivation(activation, dtype=tf.float32, autocast=False)
    rows = tf.random.stateless_normal([7, 512], [1, 2])
    results = []
    for is_training in (True, False):
        inputs = tf.cast(rows, dtype)
        with tf.GradientTape() as tape:
            tape.watch(inputs)
            outputs = layer(inputs, training=is_training)
        gradient = tape.gradient(outputs, inputs)
        results.append([tf.cast(value, tf.float32) for value in (outputs, gradient)])
    for compiled, plain in zip(*results, strict=True):
        np.testing.assert_allclose(compiled, plain, rtol=tolerance, atol=tolerance)
