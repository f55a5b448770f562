"""An encoder's directory: configuration, vocabulary and weights.

It has one of two formats: a Model Garden checkpoint or a Hugging Face folder.
"""

from __future__ import annotations

import dataclasses
import functools
import os
import re
from typing import Any

import tensorflow as tf

from contracts import fingerprint
from modules.data import tokenizer_files
from modules.encoder_files import (
    APPROXIMATE_GELU_KEY,
    HUGGING_FACE_CONFIG,
    HUGGING_FACE_INDEX,
    HUGGING_FACE_WEIGHTS,
    MODEL_GARDEN_CONFIG,
    MODEL_GARDEN_WEIGHTS,
    SIZE_KEYS,
    SPECIAL_TOKENS,
    VOCAB_FILE,
    damaged,
    find_config,
    list_files,
    missing,
    read_json,
    unsupported,
)

# Values of `hidden_act`. Which "gelu" is meant depends on the format.
_APPROXIMATE_GELUS = ("gelu_new", "gelu_pytorch_tanh")
ACTIVATIONS = ("gelu", *_APPROXIMATE_GELUS, "relu")
# The supported values of these keys: the model is BERT as it was published.
_ARCHITECTURE = {
    "model_type": "bert",
    "position_embedding_type": "absolute",
    "is_decoder": False,
}


# What `FastWordpieceTokenizer` cannot build, and a line of `vocab.txt` cannot hold.
_UNSUPPORTED = re.compile(r"[\0\x11\r\n\ud800-\udfff]|[ \t]$")
_MAX_TOKEN_BYTES = 256
_TOKEN_SHOWN = 40
_COPY = "copy all files of the weights"
_OWN_VOCABULARY = "use the vocabulary that the encoder was trained with"
_LEAST_MULTIPLE, _LARGEST_MULTIPLE = 8, 128  # of the rows of a padded table


@dataclasses.dataclass(frozen=True)
class EncoderDirectory:
    """An encoder's configuration and the names of its files.

    Attributes:
      directory: Its path.
      config_file: File name of the configuration, which determines the format.
      config: The configuration.
      weights_names: Names of the files with the tensors.
      checkpoint: Name of a Model Garden checkpoint, without the files' suffixes.
      tokenizer_names: Names of the files with the tokenizer's settings; may be empty.
    """

    directory: str
    config_file: str
    config: dict[str, Any]
    weights_names: tuple[str, ...]
    checkpoint: str = ""
    tokenizer_names: tuple[str, ...] = ()

    def path(self, name: str) -> str:
        """Returns the path of one of its files."""
        return os.path.join(self.directory, name)

    @property
    def is_model_garden(self) -> bool:
        """Whether it is a Model Garden checkpoint, not a Hugging Face folder."""
        return self.config_file == MODEL_GARDEN_CONFIG

    @property
    def vocab_file(self) -> str:
        """Path of the vocabulary, one token a line."""
        return self.path(VOCAB_FILE)

    @functools.cached_property
    def tokenizer(self) -> tokenizer_files.Tokenizer:
        """Its tokenizer, which is read on first use."""
        return tokenizer_files.read_tokenizer(self.vocab_file)

    @property
    def weights_files(self) -> list[str]:
        """Paths of the files with the weights."""
        return [self.path(name) for name in self.weights_names]

    @property
    def fingerprinted_files(self) -> list[str]:
        """Names of the files that identify the encoder."""
        # A checkpoint's index holds a checksum of every tensor.
        index = (f"{self.checkpoint}.index",)
        weights = index if self.is_model_garden else self.weights_names
        return [self.config_file, VOCAB_FILE, *self.tokenizer_names, *weights]

    @property
    def files(self) -> list[str]:
        """Names of all its files."""
        index = f"{self.checkpoint}.index"
        if not self.is_model_garden:
            is_sharded = HUGGING_FACE_WEIGHTS not in self.weights_names
            index = HUGGING_FACE_INDEX if is_sharded else ""
        settings = [self.config_file, VOCAB_FILE, *self.tokenizer_names]
        return [name for name in (*settings, index, *self.weights_names) if name]

    @property
    def max_seq_length(self) -> int:
        """Longest sequence in tokens that has a position embedding."""
        return int(self.config["max_position_embeddings"])

    @property
    def is_gelu_approximate(self) -> bool:
        """Whether "gelu" is its tanh approximation.

        Google's original and the Model Garden's checkpoints approximate it, Hugging
        Face's BERT does not. Imported encoders have a key for it.
        """
        if self.config.get("hidden_act") in _APPROXIMATE_GELUS:
            return True
        return bool(self.config.get(APPROXIMATE_GELU_KEY, self.is_model_garden))


def open_encoder(directory: str) -> EncoderDirectory:
    """Reads an encoder's configuration and checks that its files are there.

    Raises:
      EncoderError: A file or key is missing, the configuration is not that of a BERT,
        or the vocabulary is not one of it.
    """
    encoder = open_without_vocabulary(directory)
    if not tf.io.gfile.exists(encoder.vocab_file):
        raise missing(
            directory,
            f"no {VOCAB_FILE}",
            "copy the encoder's vocabulary into the directory",
        )
    check_vocabulary(encoder.vocab_file, encoder.tokenizer.words, encoder.config)
    return encoder


def describe_architecture(encoder: EncoderDirectory) -> dict[str, Any]:
    """Returns the architecture, which two encoders must share to exchange weights.

    Returns:
      The sizes, the name of the activation, and the vocabulary's SHA-256.
    """
    activation = encoder.config.get("hidden_act", "gelu")
    if activation.startswith("gelu"):
        activation = "approximate gelu" if encoder.is_gelu_approximate else "gelu"
    return {
        **{key: encoder.config[key] for key in SIZE_KEYS},
        "activation": activation,
        "vocabulary": fingerprint.of_file(encoder.vocab_file),
    }


def open_without_vocabulary(directory: str) -> EncoderDirectory:
    """Reads an encoder as `open_encoder` does, but not its tokenizer.

    Raises:
      EncoderError: A file or key is missing, or the configuration is not that of a
        BERT.
    """
    config_file = find_config(directory)
    if config_file is None:
        raise missing(
            directory,
            f"neither {MODEL_GARDEN_CONFIG} (a Model Garden checkpoint) nor "
            f"{HUGGING_FACE_CONFIG} (a Hugging Face folder), nor a SavedModel",
            "name the directory that has the files of the encoder",
        )
    path = os.path.join(directory, config_file)
    config = read_json(path)
    _check_config(path, config)
    tokenizer = tokenizer_files.list_files(directory)
    if config_file == MODEL_GARDEN_CONFIG:
        checkpoint, names = _model_garden_weights(directory)
    else:
        checkpoint, names = "", _hugging_face_weights(directory)
    return EncoderDirectory(
        directory, config_file, config, names, checkpoint, tokenizer
    )


def _check_config(path: str, config: dict[str, Any]) -> None:
    """Refuses a configuration that does not describe a BERT encoder."""
    for key, allowed in _ARCHITECTURE.items():
        if config.get(key, allowed) != allowed:
            raise unsupported(path, f"{key} {config[key]!r}", allowed=f"{allowed!r}")
    absent = [key for key in SIZE_KEYS if key not in config]
    if absent:
        raise damaged(
            path, f"no {', '.join(absent)}", advice="use the configuration of a BERT"
        )
    for key in SIZE_KEYS:
        if not isinstance(config[key], int) or config[key] < 1:
            raise damaged(
                path, f"{key} {config[key]!r}", allowed="a whole number above 0"
            )
    hidden, heads = config["hidden_size"], config["num_attention_heads"]
    if hidden % heads:
        raise damaged(
            path,
            f"hidden_size {hidden}",
            allowed=f"a multiple of num_attention_heads ({heads})",
        )
    if config.get("embedding_size") not in (None, hidden):
        raise unsupported(
            path,
            f"embedding_size {config['embedding_size']!r}",
            allowed=f"hidden_size ({hidden})",
        )
    if config.get("hidden_act", "gelu") not in ACTIVATIONS:
        raise unsupported(
            path, f"hidden_act {config['hidden_act']!r}", allowed=", ".join(ACTIVATIONS)
        )
    for key in ("initializer_range", "layer_norm_eps"):
        value = config.get(key, 1.0)
        if not isinstance(value, int | float) or not value >= 0:
            raise damaged(path, f"{key} {value!r}", allowed="0 or above")


def check_vocabulary(path: str, words: list[str], config: dict[str, Any]) -> None:
    """Refuses a vocabulary that the encoder or its tokenizer cannot use.

    The table of embeddings may be padded: published BERTs have tables of a multiple of
    8, 64 or 128 rows.

    Raises:
      EncoderError: There are more tokens than embeddings or, beyond padding, fewer; a
        special token is missing, a token is repeated, or it is one that the tokenizer
        does not support.
    """
    rows, tokens = config["vocab_size"], len(words)
    is_padding = rows % _LEAST_MULTIPLE == 0 and 0 < rows - tokens < _LARGEST_MULTIPLE
    if tokens != rows and not is_padding:
        if_short = (
            "; if its own is so short, add a line such as [unused1] for each row "
            "without a token"
        )
        advice = _OWN_VOCABULARY + (if_short if tokens < rows else "")
        got = f"{tokens} tokens; the encoder's vocab_size is {rows}"
        raise damaged(path, got, advice=advice)
    absent = [token for token in SPECIAL_TOKENS if token not in words]
    if absent:
        raise damaged(
            path, f"no {', '.join(absent)}", advice="use the vocabulary of a BERT"
        )
    ids: dict[str, int] = {}
    for index, word in enumerate(words):
        if ids.setdefault(word, index) != index:
            raise damaged(
                path,
                f"the token {word!r} has the ids {ids[word]} and {index}",
                advice=_OWN_VOCABULARY,
            )
        if (
            _UNSUPPORTED.search(word)
            or len(word.removeprefix("##").encode()) > _MAX_TOKEN_BYTES
        ):
            raise damaged(
                path,
                f"the token {word[:_TOKEN_SHOWN]!r} with the id {index}",
                allowed=f"at most {_MAX_TOKEN_BYTES} bytes, no NUL, no U+0011, no line "
                "break and no white space at the end",
            )


def _model_garden_weights(directory: str) -> tuple[str, tuple[str, ...]]:
    """Finds `bert_model.ckpt`, or the `bert_model.ckpt-1` of `Checkpoint.save`."""
    present = set(list_files(directory))
    if f"{MODEL_GARDEN_WEIGHTS}.index" in present:
        checkpoints = [MODEL_GARDEN_WEIGHTS]
    else:
        pattern = rf"{re.escape(MODEL_GARDEN_WEIGHTS)}-\d+\.index"
        indices = sorted(name for name in present if re.fullmatch(pattern, name))
        checkpoints = [name.removesuffix(".index") for name in indices]
    if not checkpoints:
        raise missing(directory, f"no {MODEL_GARDEN_WEIGHTS}.index", _COPY)
    if len(checkpoints) > 1:
        raise missing(
            directory,
            f"{', '.join(checkpoints)} instead of {MODEL_GARDEN_WEIGHTS}",
            "delete all but one",
        )
    prefix = f"{checkpoints[0]}.data-"
    pattern = rf"{re.escape(prefix)}\d+-of-(\d+)"
    matches = [re.fullmatch(pattern, name) for name in present]
    shards = max((int(match[1]) for match in matches if match), default=1)
    data = [f"{prefix}{index:05d}-of-{shards:05d}" for index in range(shards)]
    _require(directory, data, present)
    return checkpoints[0], tuple(data)


def _hugging_face_weights(directory: str) -> tuple[str, ...]:
    if tf.io.gfile.exists(os.path.join(directory, HUGGING_FACE_WEIGHTS)):
        return (HUGGING_FACE_WEIGHTS,)
    index = os.path.join(directory, HUGGING_FACE_INDEX)
    if not tf.io.gfile.exists(index):
        raise missing(
            directory,
            f"neither {HUGGING_FACE_WEIGHTS} nor {HUGGING_FACE_INDEX}",
            "save weights in other formats, such as pytorch_model.bin, as safetensors",
        )
    weight_map = read_json(index).get("weight_map")
    if not isinstance(weight_map, dict) or not weight_map:
        raise damaged(index, "no weight_map, which an index of safetensors files has")
    names = sorted(set(map(str, weight_map.values())))
    # Such a name would be read, and staged for a remote run, outside of the folder.
    if outside := [
        name for name in names if name != os.path.basename(name) or not name
    ]:
        raise damaged(
            index,
            f"files that are not in its folder: {', '.join(outside)}",
            advice="use the folder as it was published",
        )
    present = {n for n in names if tf.io.gfile.exists(os.path.join(directory, n))}
    _require(directory, names, present)
    return tuple(names)


def _require(directory: str, names: list[str], present: set[str]) -> None:
    absent = [name for name in names if name not in present]
    if absent:
        raise missing(directory, f"no {', '.join(absent)}", _COPY)
