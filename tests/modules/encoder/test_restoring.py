"""Pre-trained weights: every tensor checked, outputs equal to a reference."""

import math

import numpy as np
import pytest
import tensorflow as tf
from safetensors.numpy import load_file

from contracts.packing import Packing
from modules.data import preprocessing
from modules.encoder.directory import open_encoder
from modules.encoder.model import build_encoder
from modules.encoder.restoring import restore_encoder
from pipeline.config.paths import DEFAULT_CONFIG
from pipeline.config.recipe import load_config
from pipeline.inputs.encoder_source import resolve_encoder
from tests import tiny

pytestmark = pytest.mark.slow

SENTENCES = [
    "Amrozi accused his brother of deliberately distorting his evidence.",
    "The company's shares rose 2.5% to $21.51 on Friday!",
    "Short.",
]


def reference_forward(tensors, config, word_ids, mask, type_ids):
    """The BERT encoder in NumPy (Devlin et al. 2018; Vaswani et al. 2017)."""
    heads, hidden = config["num_attention_heads"], config["hidden_size"]

    def dense(x, name):
        return x @ tensors[f"{name}.weight"].T + tensors[f"{name}.bias"]

    def norm(x, name):
        x = x - x.mean(-1, keepdims=True)
        x = x / np.sqrt((x**2).mean(-1, keepdims=True) + 1e-12)
        return x * tensors[f"{name}.weight"] + tensors[f"{name}.bias"]

    def split(x):
        return x.reshape(*x.shape[:2], heads, hidden // heads).transpose(0, 2, 1, 3)

    erf = np.vectorize(math.erf)
    x = tensors["embeddings.word_embeddings.weight"][word_ids]
    x = x + tensors["embeddings.token_type_embeddings.weight"][type_ids]
    x = x + tensors["embeddings.position_embeddings.weight"][: word_ids.shape[1]]
    x = norm(x, "embeddings.LayerNorm")
    for layer in range(config["num_hidden_layers"]):
        name = f"encoder.layer.{layer}"
        query, key, value = (
            split(dense(x, f"{name}.attention.self.{part}"))
            for part in ("query", "key", "value")
        )
        scores = query @ key.transpose(0, 1, 3, 2) / np.sqrt(hidden // heads)
        scores = np.where(mask[:, None, None, :] == 1, scores, -1e9)
        weights = np.exp(scores - scores.max(-1, keepdims=True))
        weights = weights / weights.sum(-1, keepdims=True)
        context = (weights @ value).transpose(0, 2, 1, 3).reshape(x.shape)
        x = norm(
            x + dense(context, f"{name}.attention.output.dense"),
            f"{name}.attention.output.LayerNorm",
        )
        inner = dense(x, f"{name}.intermediate.dense")
        inner = inner * (1 + erf(inner / np.sqrt(2))) / 2
        x = norm(x + dense(inner, f"{name}.output.dense"), f"{name}.output.LayerNorm")
    return x


def restored(directory):
    encoder = open_encoder(str(directory))
    model = build_encoder(encoder, dropout=0.1)
    restore_encoder(model, encoder)
    return encoder, model


def inputs_of(encoder, first, second):
    segments = [tf.constant(first), tf.constant(second)]
    packed = preprocessing.pack_segments(
        preprocessing.tokenize(segments, encoder.vocab_file),
        Packing(max_seq_length=64),
        special_token_ids=preprocessing.special_token_ids(encoder.vocab_file),
    )
    return preprocessing.pad_inputs(packed["input_word_ids"], packed["input_type_ids"])


def assert_equals_reference(encoder, model, first, second):
    inputs = inputs_of(encoder, first, second)
    actual = model(inputs, training=False)["sequence_output"].numpy()
    expected = reference_forward(
        load_file(encoder.weights_files[0]),
        encoder.config,
        *(inputs[name].numpy() for name in ("input_word_ids", "input_mask")),
        inputs["input_type_ids"].numpy(),
    )
    real = inputs["input_mask"].numpy() == 1
    np.testing.assert_allclose(actual[real], expected[real], atol=1e-4)


@pytest.fixture(scope="module")
def minilm():
    return restored(resolve_encoder(load_config(DEFAULT_CONFIG)).directory)


@pytest.fixture(scope="module")
def tiny_encoder(tmp_path_factory):
    path = tiny.write_encoder(tmp_path_factory.mktemp("restoring") / "encoder")
    return restored(path)


@pytest.mark.nightly
def test_minilm_outputs_on_real_sentences_equal_a_numpy_forward_pass(minilm):
    assert_equals_reference(*minilm, SENTENCES, SENTENCES[::-1])


def test_tiny_outputs_equal_a_numpy_forward_pass(tiny_encoder):
    texts = ["the cat sees", "a dog"], ["a tree .", "the"]
    assert_equals_reference(*tiny_encoder, *texts)


def test_outputs_do_not_depend_on_the_id_of_the_padding(tiny_encoder):
    encoder, model = tiny_encoder
    inputs = inputs_of(encoder, ["the cat sees", "a"], ["a tree .", "the"])
    real = inputs["input_mask"] == 1
    expected = model(inputs, training=False)
    for padding in (1, encoder.config["vocab_size"] - 1):
        ids = tf.where(real, inputs["input_word_ids"], padding)
        actual = model({**inputs, "input_word_ids": ids}, training=False)
        np.testing.assert_array_equal(
            actual["pooled_output"], expected["pooled_output"]
        )
        np.testing.assert_array_equal(
            actual["sequence_output"][real], expected["sequence_output"][real]
        )


def test_every_variable_changes_when_it_is_restored(tiny_encoder):
    encoder, model = tiny_encoder
    untrained = build_encoder(encoder, dropout=0.0)
    for variable, initial in zip(model.variables, untrained.variables, strict=True):
        assert not np.array_equal(variable.numpy(), initial.numpy()), variable.name


def test_encoder_in_a_bucket_is_read_from_there(tmp_path, tiny_encoder, bucket):
    encoder, local = tiny_encoder
    directory = f"{bucket}/encoder"
    for name in encoder.files:
        tf.io.gfile.copy(encoder.path(name), f"{directory}/{name}")
    _, remote = restored(directory)
    for actual, expected in zip(remote.variables, local.variables, strict=True):
        np.testing.assert_array_equal(actual.numpy(), expected.numpy())
    recipe = tiny.write_config(tmp_path / "run" / "recipe.yaml")
    config = load_config(recipe, {"encoder.source": directory})
    assert resolve_encoder(config).fingerprint == (
        resolve_encoder(load_config(recipe)).fingerprint
    )
