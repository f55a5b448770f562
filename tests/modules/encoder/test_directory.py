"""Directories of encoders that are refused before any weights are read."""

import json
import re

import pytest
import tensorflow as tf

from modules.data import preprocessing
from modules.encoder.directory import open_encoder
from tests import tiny
from tests.modules.encoder import sources


@pytest.fixture
def directory(tmp_path):
    return tiny.write_encoder(tmp_path / "encoder")


def check_refused(directory, file, kind, got, **fields):
    """Asserts the error of a file, which `got` is part of."""
    with sources.refused(kind, directory / file, re.escape(got), **fields):
        open_encoder(str(directory))


@pytest.mark.parametrize("absent", ["vocab.txt", "config.json", "model.safetensors"])
def test_missing_file_of_a_directory_is_named(directory, absent):
    (directory / absent).unlink()
    check_refused(directory, "", "not-found", absent)


@pytest.mark.parametrize("rows", [32, 64, 128])
def test_table_of_embeddings_may_be_padded(directory, rows):
    sources.write_config(directory, vocab_size=rows)
    encoder = open_encoder(str(directory))
    assert len(preprocessing.read_vocab(encoder.vocab_file)) == len(tiny.VOCAB)


@pytest.mark.parametrize("rows", [33, 160, 1031])
def test_vocabulary_that_is_shorter_by_more_than_padding_is_refused(directory, rows):
    sources.write_config(directory, vocab_size=rows)
    got = f"31 tokens; the encoder's vocab_size is {rows}"
    advice = re.compile(r"add a line such as \[unused1\] for each row")
    check_refused(directory, "vocab.txt", "file-damaged", got, advice=advice)


@pytest.mark.parametrize(
    "text",
    [
        "\r\n".join(tiny.VOCAB) + "\r\n",
        "\ufeff" + "\n".join(tiny.VOCAB) + "\n",
        "\n".join(tiny.VOCAB) + "\n\n \n",
        "".join(f"{word} \t\n" for word in tiny.VOCAB),
        "\n".join(tiny.VOCAB),
    ],
    ids=[
        "Windows",
        "byte order mark",
        "empty lines at the end",
        "spaces",
        "no newline",
    ],
)
def test_vocabulary_that_an_editor_has_saved_has_the_same_tokens(directory, text):
    (directory / "vocab.txt").write_bytes(text.encode())
    encoder = open_encoder(str(directory))
    assert preprocessing.read_vocab(encoder.vocab_file) == tiny.VOCAB
    assert preprocessing.special_token_ids(encoder.vocab_file) == (2, 3)


def test_line_separator_of_unicode_is_a_token(directory):
    words = [*tiny.VOCAB[:-1], "\u2028"]
    (directory / "vocab.txt").write_text("\n".join(words) + "\n")
    encoder = open_encoder(str(directory))
    assert preprocessing.read_vocab(encoder.vocab_file) == words


@pytest.mark.parametrize(
    ("words", "got"),
    [
        ({31: "more"}, "32 tokens; the encoder's vocab_size is 31"),
        ({20: "cat"}, "the token 'cat' has the ids 7 and 20"),
        ({30: "[PAD]"}, "the token '[PAD]' has the ids 0 and 30"),
        ({20: "cat "}, "the token 'cat' has the ids"),
        ({20: "a\x11"}, "'a\\x11' with the id 20"),
        ({20: "", 21: ""}, "the token '' has the ids 20 and 21"),
        ({1: "zebra", 3: "lion"}, "no [UNK], [SEP]"),
        ({20: "a\0b"}, r"the token 'a\x00b' with the id 20"),
        ({20: "##" + 257 * "x"}, "with the id 20"),
        ({20: "\udcff"}, "not UTF-8"),
    ],
)
def test_vocabulary_that_no_tokenizer_can_use_is_refused(directory, words, got):
    lines = dict(enumerate(tiny.VOCAB)) | words
    text = "\n".join(lines.values()) + "\n"
    (directory / "vocab.txt").write_bytes(text.encode(errors="surrogateescape"))
    check_refused(directory, "vocab.txt", "file-damaged", got)


@pytest.mark.parametrize("word", ["", 256 * "x", "##" + 256 * "x", "\u3000", "##"])
def test_unusual_token_that_is_accepted_is_one_that_the_tokenizer_takes(
    directory, word
):
    words = [*tiny.VOCAB[:20], word, *tiny.VOCAB[21:]]
    (directory / "vocab.txt").write_text("\n".join(words) + "\n")
    encoder = open_encoder(str(directory))
    (ids,) = preprocessing.tokenize([tf.constant(["the ?"])], encoder.vocab_file)
    assert ids.to_list() == [[words.index("the"), words.index("?")]]


@pytest.mark.parametrize("weights", ["model.safetensors", "bert_model.ckpt.index"])
def test_weights_decide_between_two_configurations(directory, weights):
    stale = {**tiny.CONFIG, "num_hidden_layers": 7, "tokenizer_class": "Other"}
    is_hugging_face = weights == "model.safetensors"
    other = "bert_config.json" if is_hugging_face else "config.json"
    if not is_hugging_face:
        (directory / "config.json").rename(directory / "bert_config.json")
        (directory / "model.safetensors").unlink()
        (directory / weights).touch()
        (directory / "bert_model.ckpt.data-00000-of-00001").touch()
    (directory / other).write_text(json.dumps(stale))
    encoder = open_encoder(str(directory))
    assert encoder.is_model_garden is not is_hugging_face
    assert encoder.config["num_hidden_layers"] == tiny.LAYERS


@pytest.mark.parametrize(
    ("changes", "kind", "got", "allowed"),
    [
        ({"model_type": "roberta"}, "not-supported", "'roberta'", "'bert'"),
        ({"model_type": "distilbert"}, "not-supported", "'distilbert'", "'bert'"),
        (
            {"position_embedding_type": "relative_key"},
            *("not-supported", "'relative_key'", "'absolute'"),
        ),
        ({"is_decoder": True}, "not-supported", "is_decoder True", "False"),
        (
            {"hidden_size": None, "vocab_size": None},
            *("file-damaged", "no vocab_size, hidden_size", None),
        ),
        ({"num_hidden_layers": 0}, "file-damaged", "ers 0", "a whole number above 0"),
        (
            {"num_hidden_layers": "2"},
            *("file-damaged", "num_hidden_layers '2'", "a whole number above 0"),
        ),
        (
            {"num_attention_heads": 3},
            *("file-damaged", "size 16", "a multiple of num_attention_heads (3)"),
        ),
        ({"embedding_size": 8}, "not-supported", "size 8", "hidden_size (16)"),
        (
            {"hidden_act": "swiglu"},
            *("not-supported", "'swiglu'", "gelu, gelu_new, gelu_pytorch_tanh, relu"),
        ),
        ({"layer_norm_eps": "1e-12"}, "file-damaged", "eps '1e-12'", "0 or above"),
        ({"initializer_range": -0.02}, "file-damaged", "range -0.02", "0 or above"),
    ],
)
def test_configuration_that_is_not_of_a_bert_is_refused_with_its_value(
    directory, changes, kind, got, allowed
):
    sources.write_config(directory, **changes)
    check_refused(directory, "config.json", kind, got, allowed=allowed)


@pytest.mark.parametrize(
    ("text", "got"),
    [("{", "not JSON"), ("[]", "a list"), ('{"a": "\xe9"}', "not JSON")],
)
def test_configuration_that_cannot_be_read_is_refused(directory, text, got):
    (directory / "config.json").write_text(text, encoding="latin-1")
    check_refused(directory, "config.json", "file-damaged", got)


def test_configuration_that_says_it_is_a_bert_is_read(directory):
    sources.write_config(
        directory, model_type="bert", position_embedding_type="absolute"
    )
    encoder = open_encoder(str(directory))
    assert encoder.max_seq_length == 64


@pytest.mark.parametrize(
    ("activation", "approximate"),
    [("gelu", False), ("gelu_new", True), ("gelu_pytorch_tanh", True)],
)
def test_hugging_face_names_its_gelu(directory, activation, approximate):
    sources.write_config(directory, hidden_act=activation)
    encoder = open_encoder(str(directory))
    assert encoder.is_gelu_approximate == approximate


def test_settings_of_the_tokenizer_are_part_of_the_encoder(directory):
    (directory / "tokenizer_config.json").write_text('{"do_lower_case": false}')
    encoder = open_encoder(str(directory))
    assert "tokenizer_config.json" in encoder.files
    assert "tokenizer_config.json" in encoder.fingerprinted_files


@pytest.mark.parametrize("name", ["config.json", "tokenizer_config.json"])
def test_lower_case_that_is_not_a_boolean_is_refused(directory, name):
    path = directory / name
    settings = json.loads(path.read_text()) if path.exists() else {}
    path.write_text(json.dumps({**settings, "do_lower_case": "yes"}))
    check_refused(directory, name, "file-damaged", "do_lower_case 'yes'")


def test_fingerprint_covers_every_shard(tmp_path):
    directory = sources.write_sharded(tmp_path / "sharded")
    encoder = open_encoder(str(directory))
    assert encoder.fingerprinted_files == [
        "config.json",
        "vocab.txt",
        *(f"model-0000{index}-of-00003.safetensors" for index in (1, 2, 3)),
    ]
    names = json.loads((directory / "model.safetensors.index.json").read_text())
    assert len(names["weight_map"]) == len(tiny.hugging_face_tensors())
