"""Any encoder as a Model Garden checkpoint: `bert_config.json`, vocabulary, weights."""

from __future__ import annotations

import dataclasses
import json
import os
from typing import Any

import numpy as np
import tensorflow as tf
from official.nlp.modeling import networks

from modules.encoder import directory as files
from modules.encoder import model_garden, restoring, saved_model
from modules.encoder.directory import EncoderDirectory, EncoderError
from modules.encoder.model import LAYER_NORM_EPSILON, build_encoder

TOKENIZER_FILE = "tokenizer.json"
_SUBWORD_PREFIX = "##"


@dataclasses.dataclass(frozen=True)
class ImportedEncoder:
    """What an import wrote.

    Attributes:
      encoder: The directory.
      parameters: Number of the encoder's parameters.
      left_out: Names of the source's tensors that are no part of an encoder.
    """

    encoder: EncoderDirectory
    parameters: int
    left_out: list[str]


@dataclasses.dataclass(frozen=True)
class SourceFiles:
    """The files of a source, by path.

    Attributes:
      all: Those whose content tells this source from others.
      weights: Those with the tensors.
    """

    all: list[str]
    weights: list[str]


def needs_import(source: str) -> bool:
    """Tells whether a run must import a source first, for it is no encoder directory.

    Args:
      source: A directory, local or remote.

    Returns:
      True for a SavedModel, and for a Hugging Face folder whose vocabulary is in
      `tokenizer.json` alone.
    """
    if files.find_config(source) is None:
        return saved_model.is_saved_model(source)
    return not _exists(source, files.VOCAB_FILE) and _exists(source, TOKENIZER_FILE)


def source_files(source: str) -> SourceFiles:
    """Returns the files of a source that needs an import.

    Raises:
      EncoderError: One is missing.
    """
    if files.find_config(source) is None:
        weights = saved_model.weights_files(source)
        vocabulary = saved_model.find_vocabulary(source)
        graph = os.path.join(source, saved_model.GRAPH_FILE)
        data = [path for path in weights if ".data-" in path]
        return SourceFiles([graph, vocabulary, *weights], data)
    encoder = files.open_without_vocabulary(source)
    names = (encoder.config_file, TOKENIZER_FILE, *encoder.weights_names)
    return SourceFiles([encoder.path(name) for name in names], encoder.weights_files)


def convert(
    source: str, destination: str, preprocessor: str | None = None
) -> ImportedEncoder:
    """Writes an encoder as a Model Garden checkpoint.

    Args:
      source: A Model Garden checkpoint, a Hugging Face folder or a SavedModel, local or
        remote.
      destination: An existing, empty directory.
      preprocessor: Directory of a SavedModel's preprocessor, for its vocabulary.

    Raises:
      EncoderError: A file is missing or cannot be read; a tensor is missing,
        unexpected, or of another shape; the vocabulary is not the encoder's.
    """
    if files.find_config(source) is None and saved_model.is_saved_model(source):
        vocabulary = saved_model.find_vocabulary(source, preprocessor)
        loaded, config = saved_model.load(source)
        words = _read_lines(vocabulary)
        files.check_vocab_size(vocabulary, len(words), config)
        model = _build(destination, config)
        left_out = saved_model.restore(model, loaded, source)
    else:
        encoder = files.open_without_vocabulary(source)
        words = _vocabulary(encoder, preprocessor)
        config = _portable_config(encoder)
        model = _build(destination, config)
        left_out = restoring.load_weights(model, encoder)
    _write(destination, files.MODEL_GARDEN_CONFIG, json.dumps(config, indent=2) + "\n")
    _write(destination, files.VOCAB_FILE, "".join(f"{word}\n" for word in words))
    path = os.path.join(destination, files.MODEL_GARDEN_WEIGHTS)
    tf.train.Checkpoint(encoder=model).write(path)
    written = files.open_encoder(destination)
    model_garden.check(model, written)
    parameters = sum(int(np.prod(v.shape)) for v in model.variables)
    return ImportedEncoder(written, parameters, left_out)


def read_tokenizer(path: str) -> list[str]:
    """Reads the vocabulary of a `tokenizer.json`.

    Args:
      path: A file of Hugging Face's tokenizers library.

    Returns:
      The tokens in the order of their ids.

    Raises:
      EncoderError: It is no WordPiece as BERT's, or its ids have gaps.
    """
    tokenizer = files.read_json(path)
    model = tokenizer.get("model") or {}
    kind = model.get("type")
    if kind != "WordPiece":
        raise EncoderError(f"{path} is a tokenizer of type {kind}; BERT's is WordPiece")
    prefix = model.get("continuing_subword_prefix", _SUBWORD_PREFIX)
    if prefix != _SUBWORD_PREFIX:
        raise EncoderError(
            f"{path} continues words with {prefix!r}, BERT with {_SUBWORD_PREFIX!r}"
        )
    added = tokenizer.get("added_tokens", [])
    ids = model["vocab"] | {token["content"]: token["id"] for token in added}
    tokens = {index: token for token, index in ids.items()}
    gaps = [index for index in range(len(tokens)) if index not in tokens]
    if gaps:
        raise EncoderError(f"{path} has {len(gaps)} ids without a token, as {gaps[0]}")
    return [tokens[index] for index in range(len(tokens))]


def _portable_config(encoder: EncoderDirectory) -> dict[str, Any]:
    """Returns a configuration that every reader of `bert_config.json` knows.

    Our own key says which "gelu" is meant; others ignore it.
    """
    config = encoder.config
    portable = {key: config[key] for key in files.SIZE_KEYS}
    portable["hidden_act"] = config.get("hidden_act", "gelu")
    if portable["hidden_act"].startswith("gelu"):
        portable["hidden_act"] = "gelu"
        portable[files.APPROXIMATE_GELU_KEY] = encoder.is_gelu_approximate
    for key, default in (
        ("hidden_dropout_prob", 0.1),
        ("attention_probs_dropout_prob", 0.1),
        ("initializer_range", 0.02),
        ("layer_norm_eps", LAYER_NORM_EPSILON),
    ):
        portable[key] = config.get(key, default)
    return portable


def _build(destination: str, config: dict[str, Any]) -> networks.BertEncoder:
    written = EncoderDirectory(destination, files.MODEL_GARDEN_CONFIG, config, ())
    return build_encoder(written, dropout=0.0)


def _vocabulary(encoder: EncoderDirectory, preprocessor: str | None) -> list[str]:
    if preprocessor is not None:
        raise EncoderError(
            f"--preprocessor {preprocessor} is for a SavedModel; {encoder.directory} "
            "comes with a vocabulary of its own"
        )
    if _exists(encoder.directory, files.VOCAB_FILE):
        path = encoder.vocab_file
        words = _read_lines(path)
    elif _exists(encoder.directory, TOKENIZER_FILE):
        path = encoder.path(TOKENIZER_FILE)
        words = read_tokenizer(path)
    else:
        raise EncoderError(
            f"encoder {encoder.directory} has neither {files.VOCAB_FILE} nor "
            f"{TOKENIZER_FILE}"
        )
    files.check_vocab_size(path, len(words), encoder.config)
    return words


def _read_lines(path: str) -> list[str]:
    with tf.io.gfile.GFile(path) as lines:
        return [line.rstrip("\n") for line in lines]


def _write(directory: str, name: str, text: str) -> None:
    with tf.io.gfile.GFile(os.path.join(directory, name), "w") as file:
        file.write(text)


def _exists(directory: str, name: str) -> bool:
    return tf.io.gfile.exists(os.path.join(directory, name))
