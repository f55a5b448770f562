"""Any source becomes a Model Garden checkpoint with the same outputs."""

import json
from pathlib import Path

import numpy as np
import pytest
import tensorflow as tf
from official.legacy.bert import configs

from contracts.tokenization import TokenizerSettings
from modules.data import preprocessing, tokenizer_files
from modules.encoder import conversion
from modules.encoder.directory import open_encoder
from modules.encoder.model import build_encoder
from modules.encoder.restoring import restore_encoder
from tests import tiny
from tests.modules.encoder import sources
from tests.refusals import refused

pytestmark = pytest.mark.slow


def convert(source, destination):
    destination.mkdir()
    return conversion.convert(str(source), str(destination))


@pytest.fixture(scope="module")
def imported(tmp_path_factory):
    """The result of an import of the tiny encoder."""
    root = tmp_path_factory.mktemp("imported")
    return convert(tiny.write_encoder(root / "source"), root / "imported")


@pytest.fixture(scope="module")
def original(tmp_path_factory):
    """The tiny encoder with the weights that are stored."""
    directory = tmp_path_factory.mktemp("original") / "encoder"
    return sources.stored(tiny.write_encoder(directory))[1]


def test_source_may_have_special_characters_of_a_pattern_in_its_path(
    tmp_path, original
):
    source = tiny.write_encoder(tmp_path / "encoder [1]*")
    convert(source, tmp_path / "imported")
    _, actual, _ = sources.stored(tmp_path / "imported")
    sources.assert_same_weights(actual, original)
    (tmp_path / "imported").rename(tmp_path / "imported [1]")
    with refused("E-path-pattern"):
        sources.stored(tmp_path / "imported [1]")


def test_round_trip_of_tiny_gives_the_same_weights_and_outputs(
    tmp_path, imported, original
):
    assert imported.left_out == []
    directory = Path(imported.encoder.directory)
    assert sorted(path.name for path in directory.iterdir()) == [
        "bert_config.json",
        "bert_model.ckpt.data-00000-of-00001",
        "bert_model.ckpt.index",
        "vocab.txt",
    ]
    _, actual, _ = sources.stored(directory)
    sources.assert_same_weights(actual, original)
    sources.assert_same_outputs(actual, original)
    again = convert(directory, tmp_path / "again")
    assert again.encoder.config == imported.encoder.config
    _, actual, _ = sources.stored(tmp_path / "again")
    sources.assert_same_outputs(actual, original)


def test_exact_gelu_is_recorded_in_a_key_that_other_readers_ignore(imported):
    encoder = imported.encoder
    assert not encoder.is_gelu_approximate
    config = configs.BertConfig.from_json_file(encoder.path("bert_config.json"))
    assert config.hidden_act == "gelu"
    assert config.num_hidden_layers == tiny.LAYERS
    assert config.max_position_embeddings == 64


def test_approximate_gelu_and_epsilon_are_kept(tmp_path):
    source = tiny.write_encoder(tmp_path / "source")
    sources.write_config(source, hidden_act="gelu_new", layer_norm_eps=0.01)
    encoder = convert(source, tmp_path / "imported").encoder
    assert encoder.config["hidden_act"] == "gelu"
    assert encoder.is_gelu_approximate
    _, expected, _ = sources.stored(source)
    _, actual, _ = sources.stored(tmp_path / "imported")
    sources.assert_same_outputs(actual, expected)


def test_untrained_pooler_is_kept_on_import_and_initialized_on_restore(tmp_path):
    bias = {"pooler.dense.bias": np.zeros(16, np.float32)}
    source = tiny.write_encoder(tmp_path / "source", **bias)
    convert(source, tmp_path / "imported")
    stored = tiny.hugging_face_tensors()["pooler.dense.weight"].T
    _, as_stored, _ = sources.stored(tmp_path / "imported")
    np.testing.assert_array_equal(as_stored.pooler_layer.get_weights()[0], stored)
    for directory in (source, tmp_path / "imported"):
        tf.random.set_seed(0)
        encoder = open_encoder(str(directory))
        model = build_encoder(encoder, dropout=0.0)
        built = model.pooler_layer.get_weights()[0]
        restore_encoder(model, encoder)
        np.testing.assert_array_equal(model.pooler_layer.get_weights()[0], built)


def test_vocabulary_of_a_tokenizer_is_written_out(tmp_path):
    source = tiny.write_encoder(tmp_path / "source")
    sources.write_tokenizer(source)
    assert conversion.needs_import(str(source))
    encoder = convert(source, tmp_path / "imported").encoder
    with open(encoder.vocab_file) as lines:
        assert lines.read().split("\n") == [*tiny.VOCAB, ""]


def test_settings_of_a_tokenizer_are_written_out(tmp_path):
    source = tiny.write_encoder(tmp_path / "source")
    cased = ["Cat" if word == "cat" else word for word in tiny.VOCAB]
    sources.write_tokenizer(source, cased, max_input_chars_per_word=50)
    config = {"strip_accents": False, "tokenize_chinese_chars": None}
    (source / "tokenizer_config.json").write_text(json.dumps(config))
    encoder = convert(source, tmp_path / "imported").encoder
    assert encoder.tokenizer.settings == TokenizerSettings(
        do_lower_case=True, strip_accents=False, max_input_chars_per_word=50
    )
    again = convert(tmp_path / "imported", tmp_path / "again").encoder
    assert again.config == encoder.config


def test_words_of_the_two_files_of_a_tokenizer_must_be_equal(tmp_path):
    source = tiny.write_encoder(tmp_path / "source")
    vocabulary = (source / "vocab.txt").read_text()
    sources.write_tokenizer(source)
    (source / "vocab.txt").write_text(vocabulary)
    open_encoder(str(source))
    (source / "vocab.txt").write_text(vocabulary.replace("cat\n", "dogs\n"))
    path, got = source / "tokenizer.json", "its tokens differ from .*vocab.txt"
    with sources.refused("file-damaged", path, got):
        open_encoder(str(source))
    with sources.refused("file-damaged", path, got):
        convert(source, tmp_path / "imported")


def test_added_token_of_a_tokenizer_counts(tmp_path):
    source = tiny.write_encoder(tmp_path / "source")
    sources.write_tokenizer(source, tiny.VOCAB[1:])
    text = json.loads((source / "tokenizer.json").read_text())
    text["model"]["vocab"] = {token: i + 1 for i, token in enumerate(tiny.VOCAB[1:])}
    (source / "tokenizer.json").write_text(json.dumps(text))
    path = str(source / "tokenizer.json")
    assert tokenizer_files.read_words(path) == tiny.VOCAB


@pytest.mark.parametrize(
    ("changes", "kind", "got"),
    [
        ({"type": "BPE"}, "not-supported", "model BPE"),
        ({"continuing_subword_prefix": "@@"}, "not-supported", "prefix '@@'"),
        ({"vocab": {"[PAD]": 0, "a": 2}}, "file-damaged", "1 ids without a token,"),
        (
            {"vocab": {"[PAD]": 0, "a": 1, "b": 1}},
            *("file-damaged", "'a' and 'b' have the id 1"),
        ),
        ({"words": [*tiny.VOCAB[:-1], "a\nb"]}, "file-damaged", "with the id 30"),
        ({"words": [*tiny.VOCAB[:-1], "cat "]}, "file-damaged", "with the id 30"),
        ({"words": [*tiny.VOCAB[:-1], "\ud800"]}, "file-damaged", "with the id 30"),
    ],
)
def test_tokenizer_that_is_not_berts_is_refused(tmp_path, changes, kind, got):
    source = tiny.write_encoder(tmp_path / "source")
    sources.write_tokenizer(source, **changes)
    with sources.refused(kind, source / "tokenizer.json", got):
        convert(source, tmp_path / "imported")


def test_folder_without_any_vocabulary_is_refused(tmp_path):
    source = tiny.write_encoder(tmp_path / "source")
    (source / "vocab.txt").unlink()
    got = r"neither vocab\.txt nor tokenizer\.json"
    with sources.refused("not-found", source, got):
        convert(source, tmp_path / "imported")


def test_imported_cased_encoder_keeps_capitals(tmp_path):
    cased = ["Cat" if word == "cat" else word for word in tiny.VOCAB]
    source = tiny.write_encoder(tmp_path / "source")
    (source / "vocab.txt").write_text("\n".join(cased))
    encoder = convert(source, tmp_path / "imported").encoder
    (ids,) = preprocessing.tokenize(
        [tf.constant(["the Cat", "the cat"])], (encoder.vocab_file)
    )
    the, cat, unknown = (cased.index(word) for word in ("the", "Cat", "[UNK]"))
    assert ids.to_list() == [[the, cat], [the, unknown]]


def test_uncased_encoder_lowers_capitals(imported):
    vocab_file = imported.encoder.vocab_file
    (ids,) = preprocessing.tokenize([tf.constant(["The CAT"])], vocab_file)
    assert ids.to_list() == [[tiny.VOCAB.index("the"), tiny.VOCAB.index("cat")]]
