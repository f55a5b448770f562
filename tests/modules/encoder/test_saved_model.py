"""Encoders as TF Hub and Kaggle publish them, exported by the Model Garden's tool."""

import shutil

import numpy as np
import pytest
import tensorflow as tf
import tf_keras
from official.nlp.modeling import networks

from modules.encoder import conversion, saved_model
from modules.encoder.directory import EncoderError
from tests import tiny
from tests.modules.encoder import sources


@pytest.fixture(scope="module")
def published(tmp_path_factory):
    """A SavedModel with its masked language model, as TF Hub has them."""
    root = tmp_path_factory.mktemp("published")
    return sources.write_saved_model(root / "hub", with_mlm=True)


@pytest.fixture
def hub(published, tmp_path):
    shutil.copytree(published, tmp_path / "hub")
    return tmp_path / "hub"


def convert(source, destination, preprocessor=None):
    destination.mkdir()
    preprocessor = None if preprocessor is None else str(preprocessor)
    return conversion.convert(str(source), str(destination), preprocessor)


def answers(directory):
    loaded = tf.saved_model.load(str(directory))
    return lambda inputs, training: loaded(inputs, training=training)


def test_every_variable_is_restored_and_the_outputs_are_its_own(hub, tmp_path):
    imported = convert(hub, tmp_path / "imported")
    encoder, model, _ = sources.stored(tmp_path / "imported")
    assert {key: encoder.config[key] for key in tiny.CONFIG} == tiny.CONFIG
    assert imported.parameters == 6304
    assert imported.left_out == [
        "bert/cls/predictions/output_bias/bias",
        "bert/cls/predictions/transform/LayerNorm/beta",
        "bert/cls/predictions/transform/LayerNorm/gamma",
        "bert/cls/predictions/transform/dense/bias",
        "bert/cls/predictions/transform/dense/kernel",
    ]
    _, original, _ = sources.stored(tiny.write_encoder(tmp_path / "original"))
    sources.assert_same_weights(model, original)
    sources.assert_same_outputs(model, answers(hub))


def test_an_encoder_without_a_language_model_is_taken_too(tmp_path):
    hub = sources.write_saved_model(tmp_path / "hub")
    assert convert(hub, tmp_path / "imported").left_out == []
    _, model, _ = sources.stored(tmp_path / "imported")
    sources.assert_same_outputs(model, answers(hub))


def test_activation_is_read_from_the_graph(tmp_path):
    hub = sources.write_saved_model(tmp_path / "hub", hidden_act="relu")
    imported = convert(hub, tmp_path / "imported")
    assert imported.encoder.config["hidden_act"] == "relu"
    _, model, _ = sources.stored(tmp_path / "imported")
    sources.assert_same_outputs(model, answers(hub))


@pytest.mark.parametrize("place", ["given", "preprocess", "preprocessor"])
def test_vocabulary_may_be_its_preprocessors(hub, tmp_path, place):
    (hub / "assets" / "vocab.txt").unlink()
    given = tmp_path / "elsewhere" if place == "given" else None
    (given or hub / place).parent.mkdir(exist_ok=True)
    sources.write_preprocessor(given or hub / place)
    found = saved_model.find_vocabulary(str(hub), given and str(given))
    assert found == str((given or hub / place) / "assets" / "vocab.txt")
    with open(found) as lines:
        assert lines.read().split("\n")[:-1] == tiny.VOCAB


def test_encoder_without_a_vocabulary_asks_for_its_preprocessor(hub, tmp_path):
    (hub / "assets" / "vocab.txt").unlink()
    with pytest.raises(EncoderError, match=r"has no vocabulary.*--preprocessor"):
        convert(hub, tmp_path / "imported")


def test_several_vocabularies_are_refused(hub):
    for name in ("a.txt", "b.txt"):
        shutil.copy(hub / "assets" / "vocab.txt", hub / "assets" / name)
    (hub / "assets" / "vocab.txt").unlink()
    with pytest.raises(EncoderError, match=r"several texts: a\.txt, b\.txt"):
        saved_model.find_vocabulary(str(hub))


def test_vocabulary_of_another_encoder_is_refused(hub, tmp_path):
    with open(hub / "assets" / "vocab.txt", "a") as file:
        file.write("more\n")
    with pytest.raises(EncoderError, match="32 tokens, the encoder's vocab_size is 31"):
        convert(hub, tmp_path / "imported")


def test_preprocessor_in_the_encoders_place_is_told_apart(tmp_path):
    source = sources.write_preprocessor(tmp_path / "preprocessor")
    with pytest.raises(EncoderError, match=r"no variable word_embeddings.*--preproc"):
        convert(source, tmp_path / "imported")


def save(directory, model):
    """Exports an encoder the way TF Hub's were."""
    inputs = {tensor.name: tensor for tensor in model.inputs}
    core = tf_keras.Model(inputs=inputs, outputs=model(inputs))
    core.save(str(directory), include_optimizer=False, save_format="tf")
    (directory / "assets").mkdir(exist_ok=True)
    (directory / "assets" / "vocab.txt").write_text("\n".join(tiny.VOCAB) + "\n")
    return directory


def bert(**changes):
    return networks.BertEncoder(
        vocab_size=len(tiny.VOCAB),
        hidden_size=16,
        num_layers=2,
        num_attention_heads=2,
        max_sequence_length=64,
        type_vocab_size=2,
        inner_dim=32,
        dict_outputs=True,
        **changes,
    )


def test_variable_that_bert_has_not_is_named(tmp_path):
    model = bert(embedding_width=8)
    source = save(tmp_path / "factorized", model)
    with pytest.raises(EncoderError, match=r"embedding_projection/kernel"):
        convert(source, tmp_path / "imported")


def test_same_variables_of_another_architecture_are_refused(tmp_path):
    model = bert(norm_first=True)
    for variable in model.variables:
        variable.assign(np.random.default_rng(0).normal(size=variable.shape))
    source = save(tmp_path / "norm_first", model)
    with pytest.raises(EncoderError, match=r"outputs differ by .* not its architect"):
        convert(source, tmp_path / "imported")
