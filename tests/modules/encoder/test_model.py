"""The encoder's model: any size, and checkpoints that the Model Garden reads."""

import dataclasses
import functools

import numpy as np
import pytest
import tensorflow as tf
import tf_keras
from official.nlp.modeling import models
from tf_keras.src.saving.legacy.saved_model import utils as keras_saving

from modules.encoder.directory import open_encoder
from modules.encoder.model import build_encoder, variable_shapes
from modules.encoder.restoring import restore_encoder
from tests import tiny
from tests.modules.encoder import sources
from tests.nightly import nightly

pytestmark = pytest.mark.slow

BERT_TINY = {"hidden_size": 128, "num_hidden_layers": 2, "num_attention_heads": 2}
BERT_BASE = {"hidden_size": 768, "num_hidden_layers": 12, "num_attention_heads": 12}


@pytest.fixture(scope="module")
def encoder(tmp_path_factory):
    path = tiny.write_encoder(tmp_path_factory.mktemp("model") / "encoder")
    return open_encoder(str(path))


def with_config(encoder, **changes):
    return dataclasses.replace(encoder, config={**encoder.config, **changes})


def of_size(encoder, **size):
    return with_config(
        encoder,
        **size,
        vocab_size=30522,
        intermediate_size=4 * size["hidden_size"],
        max_position_embeddings=512,
    )


# The counts that google-research/bert has for these two.
@pytest.mark.parametrize(
    ("size", "parameters"), [(BERT_TINY, 4_385_920), (BERT_BASE, 109_482_240)]
)
def test_configuration_determines_the_number_of_parameters(encoder, size, parameters):
    shapes = variable_shapes(of_size(encoder, **size).config).values()
    assert sum(np.prod(shape) for shape in shapes) == parameters


def test_model_has_the_variables_of_its_configuration(encoder):
    encoder = of_size(encoder, **BERT_TINY)
    model = build_encoder(encoder, dropout=0.1)
    shapes = {v.name.removesuffix(":0"): tuple(v.shape) for v in model.variables}
    assert shapes == variable_shapes(encoder.config)


def restored(encoder, **changes):
    """Returns a model of a changed configuration, and its outputs."""
    encoder = with_config(encoder, **changes)
    model = build_encoder(encoder, dropout=0.0)
    restore_encoder(model, encoder)
    return model, model(sources.inputs(), training=False)["sequence_output"].numpy()


def outputs(encoder, **changes):
    return restored(encoder, **changes)[1]


@pytest.fixture(scope="module")
def usual(encoder):
    """The outputs of the unchanged configuration."""
    return outputs(encoder)


def test_gelu_is_exact_or_approximate_as_configured(encoder, usual):
    approximate = outputs(encoder, hidden_act="gelu_new")
    assert 1e-6 < np.abs(usual - approximate).max() < 1e-1
    imported = outputs(encoder, hidden_act="gelu", approximate_gelu=True)
    np.testing.assert_array_equal(imported, approximate)
    assert np.abs(outputs(encoder, hidden_act="relu") - usual).max() > 1e-2


def test_epsilon_of_the_norms_is_the_configurations(encoder, usual):
    model, changed = restored(encoder, layer_norm_eps=0.5)
    assert np.abs(changed - usual).max() > 1e-2
    norms = [
        layer
        for layer in model.submodules
        if isinstance(layer, tf_keras.layers.LayerNormalization)
    ]
    assert len(norms) == 1 + 2 * tiny.LAYERS
    assert {norm.epsilon for norm in norms} == {0.5}


@pytest.fixture(scope="module")
def builders(encoder):
    """Builds our classifier, or the Model Garden's on its own encoder."""

    def build(build_encoder):
        return models.BertClassifier(build_encoder(encoder, dropout=0.1), num_classes=3)

    return {
        "ours": lambda: build(build_encoder),
        "upstream": lambda: build(sources.build_upstream),
    }


@pytest.fixture(scope="module")
def train(builders):
    """Trains a classifier of a kind for a step, once; returns it and its optimizer."""

    @functools.cache
    def train(name):
        model, optimizer = builders[name](), tf_keras.optimizers.legacy.Adam(0.1)
        with tf.GradientTape() as tape:
            loss = tf.reduce_sum(model(sources.inputs(), training=True)[:, 0])
        gradients = tape.gradient(loss, model.trainable_variables)
        optimizer.apply_gradients(
            zip(gradients, model.trainable_variables, strict=True)
        )
        return model, optimizer

    return train


DIRECTIONS = pytest.mark.parametrize(
    ("writer", "reader"), [("ours", "upstream"), nightly("upstream", "ours")]
)


def assert_same_predictions(actual, expected):
    np.testing.assert_allclose(
        actual(sources.inputs(), training=False),
        expected(sources.inputs(), training=False),
        atol=1e-5,
    )


@DIRECTIONS
def test_checkpoint_of_a_training_is_read_by_the_model_garden_and_back(
    builders, train, tmp_path, writer, reader
):
    model, optimizer = train(writer)
    checkpoint = tf.train.Checkpoint(model=model, optimizer=optimizer)
    path = checkpoint.write(str(tmp_path / "checkpoint"))
    other, other_optimizer = builders[reader](), tf_keras.optimizers.legacy.Adam(0.1)
    other_optimizer._create_all_weights(other.trainable_variables)
    status = tf.train.Checkpoint(model=other, optimizer=other_optimizer).read(path)
    status.assert_consumed()
    assert_same_predictions(other, model)
    moments = [o.get_weights() for o in (optimizer, other_optimizer)]
    for expected, actual in zip(*moments, strict=True):
        np.testing.assert_array_equal(actual, expected)


@DIRECTIONS
def test_saved_model_is_read_by_the_model_garden_and_back(
    builders, train, tmp_path, writer, reader
):
    module = tf.Module()
    module._model = train(writer)[0]
    with keras_saving.keras_option_scope(save_traces=False):
        tf.saved_model.save(module, str(tmp_path / "exported"))
    other = builders[reader]()
    path = str(tmp_path / "exported" / "variables" / "variables")
    status = tf.train.Checkpoint(_model=other).read(path)
    status.assert_existing_objects_matched()
    assert_same_predictions(other, module._model)
