"""The tiny encoder in every format: sharded, with heads, as a SavedModel."""

import functools
import json
import re
import shutil
import tempfile
from pathlib import Path

import numpy as np
import tensorflow as tf
import tf_keras
from official.legacy.bert import configs
from official.nlp.modeling import models, networks
from official.nlp.tools import export_tfhub_lib
from safetensors.numpy import save_file

from modules.encoder import restoring
from modules.encoder.directory import open_encoder
from modules.encoder.model import build_encoder
from modules.encoder_files import EncoderError
from tests import refusals, tiny

_EXPORTS = tempfile.TemporaryDirectory()  # of each kind once; one takes seconds


def write_config(directory: Path, **changes: object) -> None:
    """Changes keys of a folder's configuration; None leaves one out."""
    path = next(directory.glob("*config.json"))
    config = {**json.loads(path.read_text()), **changes}
    config = {key: value for key, value in config.items() if value is not None}
    path.write_text(json.dumps(config))


def write_sharded(directory: Path, shards: int = 3) -> Path:
    """Writes a Hugging Face folder whose tensors are in several files."""
    tiny.write_encoder(directory)
    (directory / "model.safetensors").unlink()
    tensors = tiny.hugging_face_tensors()
    weight_map = {}
    for index in range(shards):
        name = f"model-{index + 1:05d}-of-{shards:05d}.safetensors"
        shard = dict(list(tensors.items())[index::shards])
        save_file(shard, directory / name)
        weight_map |= dict.fromkeys(shard, name)
    (directory / "model.safetensors.index.json").write_text(
        json.dumps({"metadata": {}, "weight_map": weight_map})
    )
    return directory


def write_tokenizer(directory: Path, words: list[str] = tiny.VOCAB, **changes) -> None:
    """Replaces a folder's `vocab.txt` by a `tokenizer.json`."""
    (directory / "vocab.txt").unlink()
    text = json.dumps(tiny.tokenizer_json(words, **changes))
    (directory / "tokenizer.json").write_text(text)


def refused(kind: str, path: Path, got: str, **fields):
    """Expects an error of an encoder: the end of its name, its file, and a pattern."""
    fields |= {"setting": str(path), "got": re.compile(got)}
    return refusals.refused(f"E-encoder-{kind}", EncoderError, **fields)


def stored(directory: Path):
    """Opens a directory and restores its weights as they are stored."""
    encoder = open_encoder(str(directory))
    model = build_encoder(encoder, dropout=0.0)
    left_out = restoring.load_weights(model, encoder)
    return encoder, model, left_out


def build_upstream(encoder, *, dropout, output_range=None):
    """Builds the Model Garden's own encoder of a directory, with untrained weights."""
    config = encoder.config
    approximate = encoder.is_gelu_approximate
    activations = {
        "gelu": lambda x: tf_keras.activations.gelu(x, approximate=approximate),
        "relu": tf_keras.activations.relu,
    }
    return networks.BertEncoder(
        vocab_size=config["vocab_size"],
        hidden_size=config["hidden_size"],
        num_layers=config["num_hidden_layers"],
        num_attention_heads=config["num_attention_heads"],
        max_sequence_length=config["max_position_embeddings"],
        type_vocab_size=config["type_vocab_size"],
        inner_dim=config["intermediate_size"],
        inner_activation=activations[config["hidden_act"].removesuffix("_new")],
        output_dropout=dropout,
        attention_dropout=dropout,
        output_range=output_range,
        dict_outputs=True,
    )


def pretrainer(directory: Path):
    """Returns a pretrainer of a directory, with its masked language model head."""
    _, model, _ = stored(directory)
    pretrainer = models.BertPretrainerV2(encoder_network=model)
    pretrainer(pretrainer.inputs)
    return pretrainer


def write_checkpoint(directory: Path, root: tf.train.Checkpoint, save=False) -> Path:
    """Writes what a root holds as a Model Garden checkpoint of the tiny encoder."""
    directory.mkdir(parents=True)
    (directory / "vocab.txt").write_text("\n".join(tiny.VOCAB) + "\n")
    (directory / "bert_config.json").write_text(json.dumps(tiny.CONFIG))
    write = root.save if save else root.write
    write(str(directory / "bert_model.ckpt"))
    return directory


def write_saved_model(directory: Path, *, with_mlm: bool = False, **changes) -> Path:
    """Exports the tiny encoder as TF Hub's were, with the Model Garden's own tool."""
    shutil.copytree(_exported(with_mlm, tuple(changes.items())), directory)
    return directory


@functools.cache
def _exported(with_mlm: bool, changes: tuple[tuple[str, object], ...]) -> Path:
    work = Path(tempfile.mkdtemp(dir=_EXPORTS.name))
    root = pretrainer(tiny.write_encoder(work / "hugging_face"))
    checkpoint = tf.train.Checkpoint(
        model=root.encoder_network, **root.checkpoint_items
    )
    write_checkpoint(work / "model_garden", checkpoint, save=True)
    export_tfhub_lib.export_model(
        str(work / "saved_model"),
        bert_config=configs.BertConfig.from_dict(tiny.CONFIG | dict(changes)),
        model_checkpoint_path=str(work / "model_garden" / "bert_model.ckpt-1"),
        with_mlm=with_mlm,
        vocab_file=str(work / "hugging_face" / "vocab.txt"),
        do_lower_case=True,
    )
    return work / "saved_model"


def write_preprocessor(directory: Path) -> Path:
    """Exports a preprocessor with the tiny vocabulary as TF Hub's were."""
    shutil.copytree(_exported_preprocessor(), directory)
    return directory


@functools.cache
def _exported_preprocessor() -> Path:
    work = Path(tempfile.mkdtemp(dir=_EXPORTS.name))
    vocab_file = work / "vocab.txt"
    vocab_file.write_text("\n".join(tiny.VOCAB) + "\n")
    export_tfhub_lib.export_preprocessing(
        str(work / "saved_model"),
        vocab_file=str(vocab_file),
        do_lower_case=True,
        tokenize_with_offsets=False,
        default_seq_length=32,
    )
    return work / "saved_model"


def inputs(rows: int = 3, tokens: int = 12) -> dict[str, tf.Tensor]:
    """Returns random inputs of the tiny encoder, the last rows padded."""
    random = np.random.default_rng(1)
    lengths = np.arange(tokens, tokens - rows, -1)[:, None]
    mask = (np.arange(tokens) < lengths).astype(np.int32)
    words = random.integers(5, len(tiny.VOCAB), size=(rows, tokens))
    types = random.integers(2, size=(rows, tokens))
    return {
        "input_word_ids": tf.constant(words * mask, tf.int32),
        "input_mask": tf.constant(mask),
        "input_type_ids": tf.constant(types * mask, tf.int32),
    }


def assert_same_weights(actual, expected) -> None:
    """Asserts that two encoders have the same values under the same names."""
    values = {variable.name: variable.numpy() for variable in expected.variables}
    assert {variable.name for variable in actual.variables} == set(values)
    for variable in actual.variables:
        np.testing.assert_array_equal(
            variable.numpy(), values[variable.name], err_msg=variable.name
        )


def assert_same_outputs(actual, expected, of=None, atol=1e-5) -> None:
    """Asserts that two encoders have equal outputs on the same inputs."""
    of = inputs() if of is None else of
    for output in ("sequence_output", "pooled_output"):
        np.testing.assert_allclose(
            actual(of, training=False)[output].numpy(),
            expected(of, training=False)[output].numpy(),
            atol=atol,
        )
