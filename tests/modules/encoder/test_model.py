"""The encoder's model: any size, and the two details that differ between formats."""

import dataclasses

import numpy as np
import pytest
import tf_keras

from modules import encoder as encoder_lib
from modules.encoder import hugging_face
from tests import tiny
from tests.modules.encoder import sources

BERT_TINY = {"hidden_size": 128, "num_hidden_layers": 2, "num_attention_heads": 2}
BERT_BASE = {"hidden_size": 768, "num_hidden_layers": 12, "num_attention_heads": 12}


@pytest.fixture
def directory(tmp_path):
    return tiny.write_encoder(tmp_path / "encoder")


@pytest.mark.parametrize(
    ("size", "parameters"), [(BERT_TINY, 4_385_920), (BERT_BASE, 109_482_240)]
)
def test_any_size_is_built_from_its_configuration(directory, size, parameters):
    encoder = encoder_lib.open_encoder(str(directory))
    config = {
        **encoder.config,
        **size,
        "vocab_size": 30522,
        "intermediate_size": 4 * size["hidden_size"],
        "max_position_embeddings": 512,
    }
    encoder = dataclasses.replace(encoder, config=config)
    model = encoder_lib.build_encoder(encoder, dropout=0.1)
    # The counts that google-research/bert has for these two.
    assert sum(np.prod(variable.shape) for variable in model.variables) == parameters
    expected = hugging_face.expected_shapes(config).values()
    assert sum(np.prod(shape) for shape in expected) == parameters


def outputs(directory):
    _, model, _ = sources.stored(directory)
    return model(sources.inputs(), training=False)["sequence_output"].numpy()


def test_gelu_is_exact_or_approximate_as_the_configuration_says(directory):
    exact = outputs(directory)
    sources.write_config(directory, hidden_act="gelu_new")
    approximate = outputs(directory)
    assert 1e-6 < np.abs(exact - approximate).max() < 1e-1
    sources.write_config(directory, hidden_act="gelu", approximate_gelu=True)
    np.testing.assert_array_equal(outputs(directory), approximate)
    sources.write_config(directory, hidden_act="relu")
    assert np.abs(outputs(directory) - exact).max() > 1e-2


def test_epsilon_of_the_norms_is_the_configurations(directory):
    usual = outputs(directory)
    sources.write_config(directory, layer_norm_eps=0.5)
    assert np.abs(outputs(directory) - usual).max() > 1e-2
    _, model, _ = sources.stored(directory)
    norms = [
        layer
        for layer in model.submodules
        if isinstance(layer, tf_keras.layers.LayerNormalization)
    ]
    assert len(norms) == 1 + 2 * tiny.LAYERS
    assert {norm.epsilon for norm in norms} == {0.5}
