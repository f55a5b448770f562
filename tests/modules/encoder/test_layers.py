"""The layers compute what the Model Garden's and Keras's compute, and in less time."""

import numpy as np
import pytest
import tensorflow as tf
import tf_keras

from modules import encoder as encoder_lib
from modules.encoder import layers
from modules.encoder import model as model_lib
from modules.training import strategies
from tests import tiny
from tests.modules.encoder import sources


@pytest.fixture
def directory(tmp_path):
    return tiny.write_encoder(tmp_path / "encoder")


def build(directory, **options):
    encoder = encoder_lib.open_encoder(str(directory))
    return encoder_lib.build_encoder(encoder, **{"dropout": 0.0, **options})


def build_upstream(directory, monkeypatch, **options):
    with monkeypatch.context() as patch:
        patch.setattr(model_lib, "use_fast_layers", lambda network: None)
        patch.setattr(model_lib, "gelu", tf_keras.activations.gelu)
        return build(directory, **options)


def outputs_and_gradients(model, inputs):
    with tf.GradientTape() as tape:
        outputs = model(inputs, training=True)
        # Rows apart, so that no gradient cancels out.
        weights = tf.range(outputs["pooled_output"].shape[0], dtype=tf.float32)[:, None]
        loss = tf.reduce_sum(tf.cast(outputs["pooled_output"], tf.float32) * weights)
    gradients = tape.gradient(loss, model.trainable_variables)
    outputs = [outputs[name] for name in ("sequence_output", "pooled_output")]
    return [tf.convert_to_tensor(tensor).numpy() for tensor in [*outputs, *gradients]]


@pytest.mark.parametrize("activation", ["gelu", "gelu_new", "relu"])
@pytest.mark.parametrize("output_range", [None, 1])
def test_outputs_and_gradients_are_upstreams(
    directory, monkeypatch, activation, output_range
):
    sources.write_config(directory, hidden_act=activation)
    ours = build(directory, output_range=output_range)
    upstream = build_upstream(directory, monkeypatch, output_range=output_range)
    random = np.random.default_rng(0)
    weights = [random.normal(0, 0.3, variable.shape) for variable in ours.variables]
    for model in (ours, upstream):
        model.set_weights(weights)
    found, expected = (
        outputs_and_gradients(model, sources.inputs()) for model in (ours, upstream)
    )
    for mine, theirs in zip(found, expected, strict=True):
        np.testing.assert_allclose(mine, theirs, rtol=1e-4, atol=1e-5)


def test_variables_have_the_names_that_checkpoints_know(directory, monkeypatch):
    names = [
        [variable.name for variable in model.variables]
        for model in (build(directory), build_upstream(directory, monkeypatch))
    ]
    assert names[0] == names[1]


def test_upstreams_checkpoint_is_read(directory, monkeypatch, tmp_path):
    upstream = build_upstream(directory, monkeypatch)
    path = tf.train.Checkpoint(model=upstream).save(str(tmp_path / "checkpoint"))
    ours = build(directory)
    status = tf.train.Checkpoint(model=ours).restore(path)
    status.assert_existing_objects_matched()
    for mine, theirs in zip(ours.get_weights(), upstream.get_weights(), strict=True):
        np.testing.assert_array_equal(mine, theirs)


def test_first_position_is_the_same_where_the_others_are_left_out(directory):
    whole, first = build(directory), build(directory, output_range=1)
    first.set_weights(whole.get_weights())
    outputs = [model(sources.inputs(), training=False) for model in (whole, first)]
    assert outputs[1]["sequence_output"].shape[1] == 1
    np.testing.assert_allclose(
        outputs[0]["pooled_output"], outputs[1]["pooled_output"], atol=1e-6
    )


def test_bfloat16_is_as_near_as_upstreams(directory, monkeypatch):
    exact = build(directory)
    with strategies.precision("bfloat16"):
        ours = build(directory)
        upstream = build_upstream(directory, monkeypatch)
    for model in (ours, upstream):
        model.set_weights(exact.get_weights())
    expected, mine, theirs = (
        tf.cast(model(sources.inputs(), training=False)["pooled_output"], tf.float32)
        for model in (exact, ours, upstream)
    )
    error = np.abs(theirs - expected).max()
    assert 0 < np.abs(mine - expected).max() < 2 * error


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
def test_gelu_and_its_gradient_are_keras_own(ours, keras):
    inputs = tf.constant(np.linspace(-12, 12, 2001), tf.float32)
    results = []
    for function in (ours, keras):
        with tf.GradientTape() as tape:
            tape.watch(inputs)
            outputs = function(inputs)
        results.append((outputs, tape.gradient(outputs, inputs)))
    for mine, theirs in zip(*results, strict=True):
        np.testing.assert_allclose(mine, theirs, atol=1e-5)


def test_normalization_and_its_gradients_are_keras_own():
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
def test_dropout_keeps_the_mean_and_drops_its_part(rate):
    tf_keras.utils.set_random_seed(0)
    layer = layers.Dropout(rate)
    inputs = tf.ones([300, 333])  # no multiple of what is drawn at a time
    outputs = layer(inputs, training=True).numpy()
    np.testing.assert_allclose(np.unique(outputs), [0, 1 / (1 - rate)], rtol=1e-4)
    # Five standard errors.
    error = 5 * np.sqrt(rate * (1 - rate) / outputs.size)
    assert abs((outputs == 0).mean() - rate) < error
    assert not np.array_equal(outputs, layer(inputs, training=True))


def test_dropout_disturbs_outputs_and_gradients_as_much_as_upstreams(
    directory, monkeypatch
):
    models = [
        build(directory, dropout=0.3, output_range=1),
        build_upstream(directory, monkeypatch, dropout=0.3),
    ]
    random = np.random.default_rng(0)
    weights = [
        random.normal(0, 0.3, variable.shape) for variable in models[0].variables
    ]
    sizes = []
    for model in models:
        model.set_weights(weights)
        tf_keras.utils.set_random_seed(0)
        sizes.append(mean_and_spread(model, sources.inputs(), draws=400))
    # Twice 400 draws of upstream alone differ by up to 0.7 %.
    np.testing.assert_allclose(*sizes, rtol=0.03)


def mean_and_spread(model, inputs, draws):
    """Lengths of the mean of all draws, and of what they deviate from it by.

    Of the pooled output, and of the gradients of a loss that is not linear in it.
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


def test_dropout_is_for_training_alone():
    layer = layers.Dropout(0.5)
    inputs = tf.ones([10, 10])
    for training in (False, None):
        np.testing.assert_array_equal(layer(inputs, training=training), inputs)


def test_dropout_follows_from_the_seed():
    draws = []
    for _ in range(2):
        tf_keras.utils.set_random_seed(3)
        draw = tf.function(
            lambda: layers.dropout_mask(tf.constant([50]), 0.5, "float32")
        )
        draws.append([draw().numpy() for _ in range(2)])
    np.testing.assert_array_equal(draws[0], draws[1])
    assert not np.array_equal(draws[0][0], draws[0][1])


def test_gradient_passes_what_was_kept():
    tf_keras.utils.set_random_seed(0)
    inputs = tf.ones([100])
    with tf.GradientTape() as tape:
        tape.watch(inputs)
        outputs = layers.Dropout(0.5)(inputs, training=True)
    np.testing.assert_array_equal(tape.gradient(outputs, inputs), outputs)
