"""The layers equal those of the Model Garden and of Keras."""

import dataclasses

import numpy as np
import pytest
import tensorflow as tf
import tf_keras

from modules.encoder import layers
from modules.encoder.directory import open_encoder
from modules.encoder.model import build_encoder
from modules.training import computation
from tests import tiny
from tests.modules.encoder import sources
from tests.nightly import nightly

pytestmark = pytest.mark.slow


@pytest.fixture(scope="module")
def encoder(tmp_path_factory):
    path = tiny.write_encoder(tmp_path_factory.mktemp("layers") / "encoder")
    return open_encoder(str(path))


def with_activation(encoder, activation):
    return dataclasses.replace(
        encoder, config={**encoder.config, "hidden_act": activation}
    )


def outputs_and_gradients(model, inputs):
    with tf.GradientTape() as tape:
        outputs = model(inputs, training=True)
        # Rows apart, so that no gradient cancels out.
        weights = tf.range(outputs["pooled_output"].shape[0], dtype=tf.float32)[:, None]
        loss = tf.reduce_sum(tf.cast(outputs["pooled_output"], tf.float32) * weights)
    gradients = tape.gradient(loss, model.trainable_variables)
    outputs = [outputs[name] for name in ("sequence_output", "pooled_output")]
    return [tf.convert_to_tensor(tensor).numpy() for tensor in [*outputs, *gradients]]


def random_weights(model):
    random = np.random.default_rng(0)
    return [random.normal(0, 0.3, variable.shape) for variable in model.variables]


@pytest.mark.parametrize(
    ("activation", "output_range"),
    [("gelu", None), ("gelu_new", 1), nightly("relu", None)],
)
def test_outputs_and_gradients_are_upstreams(encoder, activation, output_range):
    encoder = with_activation(encoder, activation)
    options = {"dropout": 0.0, "output_range": output_range}
    ours = build_encoder(encoder, **options)
    upstream = sources.build_upstream(encoder, **options)
    for model in (ours, upstream):
        model.set_weights(random_weights(model))
    actual, expected = (
        outputs_and_gradients(model, sources.inputs()) for model in (ours, upstream)
    )
    for mine, theirs in zip(actual, expected, strict=True):
        np.testing.assert_allclose(mine, theirs, rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("dtype", ["bfloat16", nightly("float16")])
def test_reduced_precision_is_as_accurate_as_upstreams(encoder, dtype):
    exact = build_encoder(encoder, dropout=0.0)
    with computation.compute_in(dtype):
        ours = build_encoder(encoder, dropout=0.0)
        upstream = sources.build_upstream(encoder, dropout=0.0)
    for model in (ours, upstream):
        model.set_weights(exact.get_weights())
    expected, mine, theirs = (
        tf.cast(model(sources.inputs(), training=False)["pooled_output"], tf.float32)
        for model in (exact, ours, upstream)
    )
    error = np.abs(theirs - expected).max()
    assert 0 < np.abs(mine - expected).max() < 2 * error


def test_normalization_and_its_gradients_equal_those_of_keras():
    random = np.random.default_rng(0)
    inputs = tf.constant(random.normal(3, 2, [4, 5, 16]), tf.float32)
    weights = tf.constant(random.normal(0, 1, [4, 5, 16]), tf.float32)
    results = []
    for kind in (layers.LayerNormalization, tf_keras.layers.LayerNormalization):
        layer = kind(epsilon=1e-12)
        layer.build(inputs.shape)
        layer.set_weights([np.linspace(0.5, 2, 16), np.linspace(-1, 1, 16)])
        with tf.GradientTape() as tape:
            tape.watch(inputs)
            outputs = layer(inputs)
            loss = tf.reduce_sum(outputs * weights)
        watched = [inputs, *layer.trainable_variables]
        results.append([outputs, *tape.gradient(loss, watched)])
    for mine, theirs in zip(*results, strict=True):
        np.testing.assert_allclose(mine, theirs, rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("rate", [0.1, 0.5])
def test_dropout_scales_what_it_keeps_and_drops_at_its_rate(rate):
    tf_keras.utils.set_random_seed(0)
    layer = layers.Dropout(rate)
    inputs = tf.ones([300, 333])  # not a multiple of the number drawn at a time
    outputs = layer(inputs, training=True).numpy()
    np.testing.assert_allclose(np.unique(outputs), [0, 1 / (1 - rate)], rtol=1e-4)
    # Five standard errors.
    error = 5 * np.sqrt(rate * (1 - rate) / outputs.size)
    assert abs((outputs == 0).mean() - rate) < error
    assert not np.array_equal(outputs, layer(inputs, training=True))


@pytest.mark.nightly
def test_dropout_disturbs_outputs_and_gradients_as_much_as_upstreams(encoder):
    models = [
        build_encoder(encoder, dropout=0.3, output_range=1),
        sources.build_upstream(encoder, dropout=0.3),
    ]
    sizes = []
    for model in models:
        model.set_weights(random_weights(model))
        tf_keras.utils.set_random_seed(0)
        sizes.append(mean_and_spread(model, sources.inputs(), draws=400))
    # Two sets of 400 draws of upstream differ by up to 1.6 %.
    np.testing.assert_allclose(*sizes, rtol=0.03)


def mean_and_spread(model, inputs, draws):
    """Returns norms of mean and standard deviation over draws.

    They are those of the pooled output, and of the gradients of a nonlinear loss.
    """

    @tf.function(autograph=False)
    def draw():
        with tf.GradientTape() as tape:
            pooled = model(inputs, training=True)["pooled_output"]
            weights = tf.range(pooled.shape[0], dtype=tf.float32)[:, None]
            loss = tf.reduce_sum(tf.square(pooled) * weights)
        gradients = tape.gradient(loss, model.trainable_variables)
        flat = [tf.reshape(tf.convert_to_tensor(part), [-1]) for part in gradients]
        return tf.reshape(pooled, [-1]), tf.concat(flat, axis=0)

    drawn = zip(*(draw() for _ in range(draws)), strict=True)
    return [
        np.linalg.norm(statistic(np.stack(values), axis=0))
        for values in drawn
        for statistic in (np.mean, np.std)
    ]


def test_dropout_applies_in_training_only():
    layer = layers.Dropout(0.5)
    inputs = tf.ones([10, 10])
    for training in (False, None):
        np.testing.assert_array_equal(layer(inputs, training=training), inputs)


def test_gradient_is_zero_where_dropout_applied():
    tf_keras.utils.set_random_seed(0)
    inputs = tf.ones([100])
    with tf.GradientTape() as tape:
        tape.watch(inputs)
        outputs = layers.Dropout(0.5)(inputs, training=True)
    np.testing.assert_array_equal(tape.gradient(outputs, inputs), outputs)
