"""Any encoder as a Model Garden checkpoint: `bert_config.json`, vocabulary, weights."""

from __future__ import annotations

import dataclasses
import os
from typing import Any, NamedTuple

import numpy as np
import tensorflow as tf

from contracts.storage import files
from contracts.tokenization import TokenizerSettings
from modules.data import tokenizer_files
from modules.encoder import restoring, saved_model
from modules.encoder.directory import (
    EncoderDirectory,
    check_vocabulary,
    open_encoder,
    open_without_vocabulary,
)
from modules.encoder.model import (
    DEFAULTS,
    HEAD_DROPOUT_KEY,
    BertEncoder,
    DropoutRates,
    build_encoder,
)
from modules.encoder_files import (
    APPROXIMATE_GELU_KEY,
    MODEL_GARDEN_CONFIG,
    MODEL_GARDEN_WEIGHTS,
    SIZE_KEYS,
    TOKENIZER_FILE,
    VOCAB_FILE,
    EncoderError,
    find_config,
    missing,
)


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
    words: list[str]
    left_out: list[str]


def needs_import(source: str) -> bool:
    """Returns whether a run must import a source, local or remote, first.

    Returns:
      True for a SavedModel, and for a folder with its vocabulary in `tokenizer.json`
      only.
    """
    if _is_saved_model(source):
        return True
    return not _exists(source, VOCAB_FILE) and _exists(source, TOKENIZER_FILE)


def source_files(source: str) -> list[str]:
    """Returns the paths of all files that an import of a directory reads.

    Raises:
      EncoderError: A file is missing, or the directory is not an encoder.
    """
    if _is_saved_model(source):
        return saved_model.source_files(source)
    encoder = open_without_vocabulary(source)
    names = [name for name in encoder.files if name != VOCAB_FILE]
    # Without a vocab.txt, tokenizer.json is the vocabulary.
    return list(dict.fromkeys([_vocabulary_file(encoder), *map(encoder.path, names)]))


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
    tokenizer = TokenizerSettings.of(encoder.description.config, encoder.words)
    DropoutRates.of_encoder(encoder.description)  # refuses those that a training would
    config = _portable_config(encoder.description, tokenizer)
    files.write_json(os.path.join(destination, MODEL_GARDEN_CONFIG), config)
    vocabulary = "".join(f"{word}\n" for word in encoder.words)
    files.write(os.path.join(destination, VOCAB_FILE), vocabulary)
    path = os.path.join(destination, MODEL_GARDEN_WEIGHTS)
    tf.train.Checkpoint(encoder=encoder.model).write(path)
    # TensorFlow ignores it if it cannot delete this.
    files.delete_directory(f"{path}_temp")
    written = open_encoder(destination)
    parameters = sum(int(np.prod(v.shape)) for v in encoder.model.variables)
    return ImportedEncoder(written, parameters, encoder.left_out)


def _read_saved_model(source: str, preprocessor: str | None) -> _Source:
    published = saved_model.read_encoder(source, preprocessor)
    words = tokenizer_files.read_words(published.vocabulary)
    check_vocabulary(published.vocabulary, words, published.config)
    encoder = EncoderDirectory(source, MODEL_GARDEN_CONFIG, published.config, ())
    model = build_encoder(encoder, dropout=0.0)
    published.weights.restore(model)
    return _Source(encoder, model, words, published.weights.left_out)


def _read_directory(source: str, preprocessor: str | None) -> _Source:
    encoder = open_without_vocabulary(source)
    vocabulary = _vocabulary_file(encoder)
    if preprocessor is not None:
        raise EncoderError(
            "preprocessor",
            preprocessor,
            "the preprocessor of a SavedModel",
            f"leave `preprocessor` out: the vocabulary is {vocabulary}",
            name="E-options-conflict",
        )
    tokenizer = tokenizer_files.read_tokenizer(vocabulary)
    config = {**encoder.config, **dataclasses.asdict(tokenizer.settings)}
    encoder = dataclasses.replace(encoder, config=config)
    words = tokenizer.words
    check_vocabulary(vocabulary, words, config)
    model = build_encoder(encoder, dropout=0.0)
    left_out = restoring.load_weights(model, encoder)
    return _Source(encoder, model, words, left_out)


def _portable_config(
    encoder: EncoderDirectory, tokenizer: TokenizerSettings
) -> dict[str, Any]:
    """Returns a configuration that every reader of `bert_config.json` understands.

    Which "gelu" it is and the tokenizer's settings are our own keys, which other
    readers ignore.
    """
    config = encoder.config
    portable = {key: config[key] for key in SIZE_KEYS}
    portable["hidden_act"] = config.get("hidden_act", "gelu")
    if portable["hidden_act"].startswith("gelu"):
        portable["hidden_act"] = "gelu"
        portable[APPROXIMATE_GELU_KEY] = encoder.is_gelu_approximate
    portable |= {key: config.get(key, DEFAULTS[key]) for key in DEFAULTS}
    if config.get(HEAD_DROPOUT_KEY) is not None:
        portable[HEAD_DROPOUT_KEY] = config[HEAD_DROPOUT_KEY]
    return portable | dataclasses.asdict(tokenizer)


def _is_saved_model(source: str) -> bool:
    return find_config(source) is None and saved_model.is_saved_model(source)


def _vocabulary_file(encoder: EncoderDirectory) -> str:
    for name in (VOCAB_FILE, TOKENIZER_FILE):
        if _exists(encoder.directory, name):
            return encoder.path(name)
    raise missing(
        encoder.directory,
        f"neither {VOCAB_FILE} nor {TOKENIZER_FILE}",
        "copy the encoder's vocabulary into the directory",
    )


def _exists(directory: str, name: str) -> bool:
    return tf.io.gfile.exists(os.path.join(directory, name))
