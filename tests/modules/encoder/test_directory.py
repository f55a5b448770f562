"""Directories of encoders that are refused before any weights are read."""

import json

import pytest

from modules import encoder as encoder_lib
from tests import tiny
from tests.modules.encoder import sources


@pytest.fixture
def directory(tmp_path):
    return tiny.write_encoder(tmp_path / "encoder")


def refused(directory):
    with pytest.raises(encoder_lib.EncoderError) as error:
        encoder_lib.open_encoder(str(directory))
    return str(error.value)


@pytest.mark.parametrize("absent", ["vocab.txt", "config.json", "model.safetensors"])
def test_missing_file_of_a_directory_is_named(directory, absent):
    (directory / absent).unlink()
    assert absent in refused(directory)


def test_vocabulary_of_another_size_is_refused(directory):
    with open(directory / "vocab.txt", "a") as file:
        file.write("more\n")
    assert "has 32 tokens, the encoder's vocab_size is 31" in refused(directory)


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"model_type": "roberta"}, "model_type 'roberta'; only 'bert' is supported"),
        ({"model_type": "distilbert"}, "model_type 'distilbert'; only 'bert'"),
        (
            {"position_embedding_type": "relative_key"},
            "position_embedding_type 'relative_key'; only 'absolute'",
        ),
        ({"is_decoder": True}, "is_decoder True; only False"),
        ({"hidden_size": None, "vocab_size": None}, "has no vocab_size, hidden_size"),
        (
            {"num_hidden_layers": 0},
            "num_hidden_layers 0; it must be a whole number",
        ),
        (
            {"num_hidden_layers": "2"},
            "num_hidden_layers '2'; it must be a whole",
        ),
        ({"num_attention_heads": 3}, "hidden_size 16, which is not a multiple of"),
        ({"embedding_size": 8}, "embedding_size 8; only hidden_size (16)"),
        ({"hidden_act": "swiglu"}, "hidden_act 'swiglu'; supported are gelu"),
    ],
)
def test_configuration_that_is_not_of_a_bert_is_refused_with_its_value(
    directory, changes, message
):
    sources.write_config(directory, **changes)
    assert message in refused(directory)


@pytest.mark.parametrize(
    ("text", "message"),
    [("{", "config.json is not JSON"), ("[]", "config.json holds a list")],
)
def test_configuration_that_cannot_be_read_is_refused(directory, text, message):
    (directory / "config.json").write_text(text)
    assert message in refused(directory)


def test_configuration_that_says_it_is_a_bert_is_read(directory):
    sources.write_config(
        directory, model_type="bert", position_embedding_type="absolute"
    )
    encoder = encoder_lib.open_encoder(str(directory))
    assert encoder.max_seq_length == 64


@pytest.mark.parametrize(
    ("activation", "approximate"),
    [("gelu", False), ("gelu_new", True), ("gelu_pytorch_tanh", True)],
)
def test_hugging_face_names_its_gelu(directory, activation, approximate):
    sources.write_config(directory, hidden_act=activation)
    encoder = encoder_lib.open_encoder(str(directory))
    assert encoder.is_gelu_approximate == approximate


def test_settings_of_the_tokenizer_are_part_of_the_encoder(directory):
    (directory / "tokenizer_config.json").write_text('{"do_lower_case": false}')
    encoder = encoder_lib.open_encoder(str(directory))
    assert "tokenizer_config.json" in encoder.files
    assert "tokenizer_config.json" in encoder.fingerprinted_files


@pytest.mark.parametrize("name", ["config.json", "tokenizer_config.json"])
def test_lower_case_that_is_not_a_boolean_is_refused(directory, name):
    path = directory / name
    settings = json.loads(path.read_text()) if path.exists() else {}
    path.write_text(json.dumps({**settings, "do_lower_case": "yes"}))
    with pytest.raises(
        encoder_lib.EncoderError, match=rf"{name}: do_lower_case is 'yes'; write true"
    ):
        encoder_lib.open_encoder(str(directory))


def test_fingerprint_covers_every_shard(tmp_path):
    directory = sources.write_sharded(tmp_path / "sharded")
    encoder = encoder_lib.open_encoder(str(directory))
    assert encoder.fingerprinted_files == [
        "config.json",
        "vocab.txt",
        *(f"model-0000{index}-of-00003.safetensors" for index in (1, 2, 3)),
    ]
    names = json.loads((directory / "model.safetensors.index.json").read_text())
    assert len(names["weight_map"]) == len(tiny.hugging_face_tensors())
