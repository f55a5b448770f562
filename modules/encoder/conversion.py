"""Any encoder as a Model Garden checkpoint: `bert_config.json`, vocabulary, weights."""

from __future__ import annotations

import dataclasses
import json
import os
from typing import Any, NamedTuple

import numpy as np
import tensorflow as tf

from modules.data import preprocessing
from modules.encoder import restoring, saved_model
from modules.encoder.directory import (
    EncoderDirectory,
    EncoderError,
    check_vocabulary,
    find_config,
    open_encoder,
    open_without_vocabulary,
    read_json,
    read_vocabulary,
)
from modules.encoder.model import (
    DEFAULTS,
    HEAD_DROPOUT_KEY,
    BertEncoder,
    build_encoder,
    dropout_rates,
)
from modules.encoder_files import (
    APPROXIMATE_GELU_KEY,
    HUGGING_FACE_CONFIG,
    LOWER_CASE_KEY,
    MODEL_GARDEN_CONFIG,
    MODEL_GARDEN_WEIGHTS,
    SIZE_KEYS,
    TOKENIZER_FILE,
    VOCAB_FILE,
)

_SUBWORD_PREFIX = "##"


@dataclasses.dataclass(frozen=True)
class ImportedEncoder:
    """The result of an import.

    Attributes:
      encoder: The directory that was written.
      parameters: Number of the encoder's parameters.
      left_out: Names of the source's tensors that are not part of the encoder.
    """

    encoder: EncoderDirectory
    parameters: int
    left_out: list[str]


class _Source(NamedTuple):
    """An encoder that was read."""

    description: EncoderDirectory  # directory and configuration
    model: BertEncoder  # with its weights
    vocabulary: str  # path
    left_out: list[str]


def needs_import(source: str) -> bool:
    """Returns whether a run must import a source first.

    Args:
      source: A directory, local or remote.

    Returns:
      True for a SavedModel, for a folder with its vocabulary in `tokenizer.json` only,
      and for a Hugging Face folder with a `bert_config.json` of other weights, which
      Transform would read.
    """
    if _is_saved_model(source):
        return True
    is_hugging_face = find_config(source) == HUGGING_FACE_CONFIG
    if is_hugging_face and _exists(source, MODEL_GARDEN_CONFIG):
        return True
    return not _exists(source, VOCAB_FILE) and _exists(source, TOKENIZER_FILE)


def source_files(source: str) -> list[str]:
    """Returns the paths of all files that an import reads.

    Args:
      source: A directory, local or remote.

    Raises:
      EncoderError: A file is missing, or the directory is not an encoder.
    """
    if _is_saved_model(source):
        return saved_model.source_files(source)
    encoder = open_without_vocabulary(source)
    names = [name for name in encoder.files if name != VOCAB_FILE]
    return [_vocabulary_file(encoder), *map(encoder.path, names)]


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
        unexpected, or of another shape; the vocabulary's size is not the encoder's.
    """
    read = _read_saved_model if _is_saved_model(source) else _read_directory
    encoder = read(source, preprocessor)
    if os.path.basename(encoder.vocabulary) == TOKENIZER_FILE:
        words = read_tokenizer(encoder.vocabulary)
        check_vocabulary(encoder.vocabulary, words, encoder.description.config)
    else:
        words = read_vocabulary(encoder.vocabulary, encoder.description.config)
    dropout_rates(encoder.description)  # refuses those that a training would
    config = json.dumps(_portable_config(encoder.description), indent=2)
    _write(destination, MODEL_GARDEN_CONFIG, f"{config}\n")
    _write(destination, VOCAB_FILE, "".join(f"{word}\n" for word in words))
    path = os.path.join(destination, MODEL_GARDEN_WEIGHTS)
    tf.train.Checkpoint(encoder=encoder.model).write(path)
    written = open_encoder(destination)
    parameters = sum(int(np.prod(v.shape)) for v in encoder.model.variables)
    return ImportedEncoder(written, parameters, encoder.left_out)


def read_tokenizer(path: str) -> list[str]:
    """Reads the vocabulary of a `tokenizer.json`.

    Args:
      path: A file of Hugging Face's tokenizers library.

    Returns:
      The tokens in the order of their ids.

    Raises:
      EncoderError: The file is not a WordPiece tokenizer like BERT's, or an id has no
        token or several.
    """
    tokenizer = read_json(path)
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
    tokens: dict[int, str] = {}
    for token, index in ids.items():
        if tokens.setdefault(index, token) != token:
            raise EncoderError(
                f"{path} gives the id {index} to {tokens[index]!r} and to {token!r}"
            )
    gaps = [index for index in range(max(tokens, default=0)) if index not in tokens]
    if gaps:
        raise EncoderError(
            f"{path} has {len(gaps)} ids without a token, such as {gaps[0]}"
        )
    return [tokens[index] for index in range(len(tokens))]


def _read_saved_model(source: str, preprocessor: str | None) -> _Source:
    published = saved_model.read_encoder(source, preprocessor)
    encoder = EncoderDirectory(source, MODEL_GARDEN_CONFIG, published.config, ())
    model = build_encoder(encoder, dropout=0.0)
    published.weights.restore(model)
    return _Source(encoder, model, published.vocabulary, published.weights.left_out)


def _read_directory(source: str, preprocessor: str | None) -> _Source:
    encoder = open_without_vocabulary(source)
    vocabulary = _vocabulary_file(encoder)
    if preprocessor is not None:
        raise EncoderError(
            f"--preprocessor {preprocessor} is for a SavedModel; {source} has its "
            f"vocabulary in {os.path.basename(vocabulary)}"
        )
    lower_case = preprocessing.find_lower_case(vocabulary)
    is_tokenizer = os.path.basename(vocabulary) == TOKENIZER_FILE
    if lower_case is None and is_tokenizer:
        # BertNormalizer has the key; for other normalizers the words decide.
        normalizer = read_json(vocabulary).get("normalizer") or {}
        lower_case = normalizer.get("lowercase")
    config = {**encoder.config, LOWER_CASE_KEY: lower_case}
    encoder = dataclasses.replace(encoder, config=config)
    model = build_encoder(encoder, dropout=0.0)
    left_out = restoring.load_weights(model, encoder)
    return _Source(encoder, model, vocabulary, left_out)


def _portable_config(encoder: EncoderDirectory) -> dict[str, Any]:
    """Returns a configuration that every reader of `bert_config.json` understands.

    Two keys are our own, and other readers ignore them: which "gelu" it is, and whether
    text is lowercased.
    """
    config = encoder.config
    portable = {key: config[key] for key in SIZE_KEYS}
    portable["hidden_act"] = config.get("hidden_act", "gelu")
    if portable["hidden_act"].startswith("gelu"):
        portable["hidden_act"] = "gelu"
        portable[APPROXIMATE_GELU_KEY] = encoder.is_gelu_approximate
    portable |= {key: config.get(key, DEFAULTS[key]) for key in DEFAULTS}
    optional = (LOWER_CASE_KEY, HEAD_DROPOUT_KEY)
    return portable | {k: config[k] for k in optional if config.get(k) is not None}


def _is_saved_model(source: str) -> bool:
    return find_config(source) is None and saved_model.is_saved_model(source)


def _vocabulary_file(encoder: EncoderDirectory) -> str:
    for name in (VOCAB_FILE, TOKENIZER_FILE):
        if _exists(encoder.directory, name):
            return encoder.path(name)
    raise EncoderError(
        f"encoder {encoder.directory} has neither {VOCAB_FILE} nor {TOKENIZER_FILE}"
    )


def _write(directory: str, name: str, text: str) -> None:
    with tf.io.gfile.GFile(os.path.join(directory, name), "w") as file:
        file.write(text)


def _exists(directory: str, name: str) -> bool:
    return tf.io.gfile.exists(os.path.join(directory, name))
