"""Model Garden checkpoints in every layout that their writers produce."""

import json
import re

import numpy as np
import pytest
import tensorflow as tf
from official.nlp.modeling import layers, models, networks

from modules.encoder.directory import open_encoder
from modules.encoder.restoring import check_tensor_names
from tests import tiny
from tests.modules.encoder import sources
from tests.nightly import nightly

pytestmark = pytest.mark.slow


@pytest.fixture(scope="module")
def pretrainer(tmp_path_factory):
    root = tmp_path_factory.mktemp("pretrainer")
    return sources.pretrainer(tiny.write_encoder(root / "encoder"))


def encoder_v2(pretrainer):
    """The Model Garden's newer class of the same encoder; it has other names."""
    encoder = networks.BertEncoderV2(
        vocab_size=len(tiny.VOCAB),
        hidden_size=tiny.HIDDEN,
        num_layers=tiny.LAYERS,
        num_attention_heads=2,
        max_sequence_length=64,
        type_vocab_size=2,
        inner_dim=32,
    )
    encoder(encoder.inputs)
    pairs = zip(encoder.variables, pretrainer.encoder_network.variables, strict=True)
    for variable, value in pairs:
        assert variable.name.startswith("bert_encoder_v2")
        variable.assign(value)
    return encoder


HEAD = [
    "masked_lm/dense/bias",
    "masked_lm/dense/kernel",
    "masked_lm/layer_norm/beta",
    "masked_lm/layer_norm/gamma",
    "masked_lm/output_bias.Sbias",
]


@pytest.mark.parametrize(
    ("root", "left_out"),
    [
        nightly(lambda p: {"encoder": p.encoder_network}, []),
        (lambda p: {"model": p.encoder_network}, []),
        nightly(lambda p: {"model": p, **p.checkpoint_items}, HEAD),
        (lambda p: {"model": p}, [f"model/{name}" for name in HEAD]),
        (lambda p: {"encoder": encoder_v2(p)}, []),
    ],
    ids=["encoder", "model", "pretrainer items", "pretrainer model", "encoder v2"],
)
def test_each_layout_restores_every_variable(tmp_path, pretrainer, root, left_out):
    checkpoint = tf.train.Checkpoint(**root(pretrainer))
    directory = sources.write_checkpoint(tmp_path / "encoder", checkpoint)
    _, model, actual = sources.stored(directory)
    assert actual == left_out
    sources.assert_same_weights(model, pretrainer.encoder_network)


def test_numbered_checkpoint_restores_every_variable(tmp_path, pretrainer):
    checkpoint = tf.train.Checkpoint(encoder=pretrainer.encoder_network)
    directory = sources.write_checkpoint(tmp_path / "encoder", checkpoint, save=True)
    assert (directory / "bert_model.ckpt-1.index").is_file()
    check_tensor_names(open_encoder(str(directory)))
    _, model, left_out = sources.stored(directory)
    assert left_out == []
    sources.assert_same_weights(model, pretrainer.encoder_network)


def test_pooler_that_a_next_sentence_head_trained_is_restored(tmp_path):
    """As in the Model Garden's own uncased BERT-base."""
    bias = {"pooler.dense.bias": np.zeros(16, np.float32)}
    _, encoder, _ = sources.stored(tiny.write_encoder(tmp_path / "source", **bias))
    head = layers.ClassificationHead(inner_dim=16, num_classes=2, name="next_sentence")
    pretrainer = models.BertPretrainerV2(encoder, classification_heads=[head])
    pretrainer(pretrainer.inputs)
    head.dense.bias.assign(np.arange(16))
    checkpoint = tf.train.Checkpoint(model=pretrainer, **pretrainer.checkpoint_items)
    directory = sources.write_checkpoint(tmp_path / "encoder", checkpoint)
    _, model, left_out = sources.stored(directory)
    actual, expected = model.pooler_layer.get_weights(), head.dense.get_weights()
    np.testing.assert_array_equal(actual[0], expected[0])
    np.testing.assert_array_equal(actual[1], expected[1])
    names = [name for name in left_out if "masked_lm" not in name]
    assert names == [
        f"model/classification_heads/0/out_proj/{part}" for part in ("bias", "kernel")
    ]


def test_attribute_names_of_older_layers_are_known(tmp_path, pretrainer):
    encoder = sources.stored(tiny.write_encoder(tmp_path / "source"))[1]
    for layer in encoder.transformer_layers:
        # The keys of the released BERT-base have this name.
        layer._attention_output_dense = layer._attention_layer._output_dense
    checkpoint = tf.train.Checkpoint(encoder=encoder)
    directory = sources.write_checkpoint(tmp_path / "encoder", checkpoint)
    keys = dict(tf.train.list_variables(str(directory / "bert_model.ckpt")))
    assert any("/_attention_output_dense/kernel/" in key for key in keys)
    _, model, left_out = sources.stored(directory)
    assert left_out == []
    sources.assert_same_weights(model, pretrainer.encoder_network)


@pytest.fixture
def directory(tmp_path, pretrainer):
    checkpoint = tf.train.Checkpoint(encoder=pretrainer.encoder_network)
    return sources.write_checkpoint(tmp_path / "encoder", checkpoint)


def check_refused(directory, kind, got, **fields):
    with sources.refused(kind, directory / "bert_model.ckpt", got, **fields):
        check_tensor_names(open_encoder(str(directory)))


@pytest.mark.parametrize(
    ("changes", "got"),
    [
        (
            {"num_hidden_layers": 3},
            r"^missing transformer/layer_2/inter.*/bias, (?!.*(unexpected|pooler))",
        ),
        (
            {"num_hidden_layers": 1},
            r"^unexpected transformer/layer_1/intermediate/bias, (?!.*missing)",
        ),
        (
            {"max_position_embeddings": 32, "num_attention_heads": 4},
            r"^position_embedding/embeddings has shape \(64, 16\) instead of "
            r"\(32, 16\); .*query/kernel has shape \(16, 2, 8\) instead of \(16, 4",
        ),
    ],
)
def test_tensors_that_do_not_match_are_named(directory, changes, got):
    sources.write_config(directory, **changes)
    check_refused(directory, "file-damaged", got)
    with sources.refused("file-damaged", directory / "bert_model.ckpt", got):
        sources.stored(directory)


def test_data_in_several_files_is_one_checkpoint(directory, pretrainer):
    path = directory / "bert_model.ckpt"
    reader = tf.train.load_checkpoint(str(path))
    names = sorted(reader.get_variable_to_shape_map())
    parts = [str(directory / f"part-{index}") for index in range(2)]
    for index, part in enumerate(parts):
        tf.raw_ops.SaveV2(
            prefix=part,
            tensor_names=names[index::2],
            shape_and_slices=[""] * len(names[index::2]),
            tensors=[reader.get_tensor(name) for name in names[index::2]],
        )
    for file in directory.glob("bert_model.ckpt.*"):
        file.unlink()
    tf.raw_ops.MergeV2Checkpoints(
        checkpoint_prefixes=parts, destination_prefix=str(path)
    )
    encoder, model, _ = sources.stored(directory)
    assert len(encoder.weights_files) == 2
    sources.assert_same_weights(model, pretrainer.encoder_network)
    (directory / "bert_model.ckpt.data-00001-of-00002").unlink()
    with sources.refused("not-found", directory, "no .*data-00001-of-00002"):
        open_encoder(str(directory))


def test_several_checkpoints_are_refused(tmp_path, pretrainer):
    checkpoint = tf.train.Checkpoint(encoder=pretrainer.encoder_network)
    directory = sources.write_checkpoint(tmp_path / "encoder", checkpoint, save=True)
    checkpoint.save(str(directory / "bert_model.ckpt"))
    with sources.refused("not-found", directory, r"ckpt-1, bert_model\.ckpt-2"):
        open_encoder(str(directory))


@pytest.mark.parametrize(
    ("suffix", "kept"),
    [(".index", 100), (".data-00000-of-00001", 100), (".data-00000-of-00001", 20000)],
)
def test_damaged_checkpoint_is_refused_before_it_is_restored(directory, suffix, kept):
    path = directory / f"bert_model.ckpt{suffix}"
    path.write_bytes(path.read_bytes()[:kept])
    check_refused(directory, "file-damaged", "not a readable checkpoint|bytes of data")


def test_tensorflow_1_checkpoint_is_refused_with_its_converter(directory):
    for file in directory.glob("bert_model.ckpt.*"):
        file.unlink()
    tf.raw_ops.SaveV2(
        prefix=str(directory / "bert_model.ckpt"),
        tensor_names=["bert/pooler/dense/bias"],
        shape_and_slices=[""],
        tensors=[tf.zeros([16])],
    )
    advice = re.compile("tf2_bert_encoder_checkpoint_converter")
    check_refused(directory, "not-supported", "TensorFlow 1", advice=advice)


def test_checkpoint_of_another_object_is_refused_with_its_attributes(tmp_path):
    checkpoint = tf.train.Checkpoint(step=tf.Variable(1))
    directory = sources.write_checkpoint(tmp_path / "encoder", checkpoint)
    check_refused(directory, "not-supported", "step in the checkpoint")


def test_configuration_of_google_research_is_read(directory):
    text = (directory / "bert_config.json").read_text()
    google = {
        **json.loads(text),
        "attention_probs_dropout_prob": 0.1,
        "hidden_dropout_prob": 0.1,
    }
    (directory / "bert_config.json").write_text(json.dumps(google))
    assert open_encoder(str(directory)).is_gelu_approximate
