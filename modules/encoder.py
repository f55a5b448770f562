"""The pre-trained encoder: its directory's files, its model, its weights.

An encoder is a directory with a configuration, a vocabulary and weights, in one of
two formats: a Model Garden checkpoint or a Hugging Face folder.
"""

from __future__ import annotations

import dataclasses
import json
import os
from collections.abc import Callable
from typing import Any

import numpy as np
import safetensors
import safetensors.numpy
import tensorflow as tf
import tf_keras
from absl import logging
from official.nlp.modeling import networks

VOCAB_FILE = "vocab.txt"
MODEL_GARDEN_CONFIG = "bert_config.json"
MODEL_GARDEN_WEIGHTS = "bert_model.ckpt"
HUGGING_FACE_CONFIG = "config.json"
HUGGING_FACE_WEIGHTS = "model.safetensors"

# A checkpoint's index holds a checksum of every tensor.
_WEIGHTS_FILES = {
    MODEL_GARDEN_CONFIG: (
        f"{MODEL_GARDEN_WEIGHTS}.data-00000-of-00001",
        f"{MODEL_GARDEN_WEIGHTS}.index",
    ),
    HUGGING_FACE_CONFIG: (HUGGING_FACE_WEIGHTS,),
}

# Both formats name these keys alike (google-research/bert, `BertConfig`).
_REQUIRED_KEYS = (
    "vocab_size",
    "hidden_size",
    "num_hidden_layers",
    "num_attention_heads",
    "intermediate_size",
    "max_position_embeddings",
    "type_vocab_size",
)
# "gelu" is the exact one in Hugging Face's BERT, and the tanh approximation in
# Google's original, from which the Model Garden's checkpoints come.
_APPROXIMATE_GELU = {MODEL_GARDEN_CONFIG: True, HUGGING_FACE_CONFIG: False}

# Hugging Face tensor -> Model Garden variable; kernels are stored transposed there.
_EMBEDDING_TENSORS = {
    "embeddings.word_embeddings.weight": "word_embeddings/embeddings",
    "embeddings.position_embeddings.weight": "position_embedding/embeddings",
    "embeddings.token_type_embeddings.weight": "type_embeddings/embeddings",
    "embeddings.LayerNorm.weight": "embeddings/layer_norm/gamma",
    "embeddings.LayerNorm.bias": "embeddings/layer_norm/beta",
}
_LAYER_TENSORS = {
    "attention.self.query": "self_attention/query",
    "attention.self.key": "self_attention/key",
    "attention.self.value": "self_attention/value",
    "attention.output.dense": "self_attention/attention_output",
    "attention.output.LayerNorm": "self_attention_layer_norm",
    "intermediate.dense": "intermediate",
    "output.dense": "output",
    "output.LayerNorm": "output_layer_norm",
}
_POOLER_TENSORS = {
    "pooler.dense.weight": "pooler_transform/kernel",
    "pooler.dense.bias": "pooler_transform/bias",
}
_TENSORS_WITHOUT_WEIGHTS = {"embeddings.position_ids"}  # 0, 1, 2, ...


class EncoderError(Exception):
    """An encoder directory that is incomplete or does not fit its configuration."""


@dataclasses.dataclass(frozen=True)
class EncoderDirectory:
    """What an encoder directory holds.

    Attributes:
      directory: Its path.
      config_file: Its configuration's file name, which tells the format.
      config: The configuration.
    """

    directory: str
    config_file: str
    config: dict[str, Any]

    def path(self, name: str) -> str:
        """Returns the path of one of its files."""
        return os.path.join(self.directory, name)

    @property
    def vocab_file(self) -> str:
        """Path of the vocabulary, one token a line."""
        return self.path(VOCAB_FILE)

    @property
    def weights_file(self) -> str:
        """Path of the file with the weights."""
        return self.path(_WEIGHTS_FILES[self.config_file][0])

    @property
    def fingerprinted_files(self) -> list[str]:
        """Names of the files whose content tells this encoder from others."""
        return [self.config_file, VOCAB_FILE, _WEIGHTS_FILES[self.config_file][-1]]

    @property
    def max_seq_length(self) -> int:
        """Longest sequence in tokens that has a position embedding."""
        return int(self.config["max_position_embeddings"])


def open_encoder(directory: str) -> EncoderDirectory:
    """Reads an encoder's configuration and checks that its files are there.

    Args:
      directory: A Model Garden or Hugging Face directory, local or remote.

    Raises:
      EncoderError: A file or key is missing, or the vocabulary's size is not the
        configuration's.
    """
    for config_file in (MODEL_GARDEN_CONFIG, HUGGING_FACE_CONFIG):
        path = os.path.join(directory, config_file)
        if tf.io.gfile.exists(path):
            break
    else:
        raise EncoderError(
            f"encoder {directory} has neither {MODEL_GARDEN_CONFIG} (a Model Garden "
            f"checkpoint) nor {HUGGING_FACE_CONFIG} (a Hugging Face folder)"
        )
    with tf.io.gfile.GFile(path) as file:
        config = json.load(file)
    missing = [key for key in _REQUIRED_KEYS if key not in config]
    if missing:
        raise EncoderError(f"{path} has no {', '.join(missing)}: not a BERT's")
    encoder = EncoderDirectory(directory, config_file, config)
    _check_files(encoder)
    return encoder


def check_tensor_names(encoder: EncoderDirectory) -> None:
    """Compares the tensors of a local Hugging Face folder with what BERT needs.

    It reads names alone, so that weights that cannot be restored are refused before
    anything else is done. Other encoders are checked when they are restored.

    Raises:
      EncoderError: The file cannot be read, or a tensor is missing or unexpected.
    """
    path = encoder.weights_file
    if encoder.config_file != HUGGING_FACE_CONFIG or "://" in path:
        return
    try:
        with safetensors.safe_open(path, framework="numpy") as file:
            names = set(file.keys())
    except safetensors.SafetensorError as error:
        raise EncoderError(f"{path} is no safetensors file: {error}") from error
    _check_names(
        path,
        names - _TENSORS_WITHOUT_WEIGHTS,
        set(_tensor_sources(encoder.config["num_hidden_layers"]).values()),
    )


def build_encoder(encoder: EncoderDirectory, *, dropout: float) -> networks.BertEncoder:
    """Builds the Model Garden encoder that a directory describes, weights untrained.

    Args:
      encoder: The directory.
      dropout: Rate after embeddings, attention and feed-forward layers.

    Returns:
      A model from `input_word_ids`, `input_mask`, `input_type_ids`, each
      int32[batch, seq_len], to `sequence_output` float32[batch, seq_len, hidden] and
      `pooled_output` float32[batch, hidden].
    """
    size = {key: int(encoder.config[key]) for key in _REQUIRED_KEYS}
    return networks.BertEncoder(
        vocab_size=size["vocab_size"],
        hidden_size=size["hidden_size"],
        num_layers=size["num_hidden_layers"],
        num_attention_heads=size["num_attention_heads"],
        max_sequence_length=size["max_position_embeddings"],
        type_vocab_size=size["type_vocab_size"],
        inner_dim=size["intermediate_size"],
        inner_activation=_activation(encoder),
        output_dropout=dropout,
        attention_dropout=dropout,
        initializer=tf_keras.initializers.TruncatedNormal(
            stddev=encoder.config.get("initializer_range", 0.02)
        ),
        dict_outputs=True,
    )


def restore_encoder(model: networks.BertEncoder, encoder: EncoderDirectory) -> None:
    """Loads the pre-trained weights and accounts for every tensor.

    Args:
      model: What `build_encoder` returned for the same directory.
      encoder: The directory.

    Raises:
      EncoderError: A tensor is missing, unexpected, or of another shape.
    """
    if encoder.config_file == MODEL_GARDEN_CONFIG:
        _restore_model_garden(model, encoder)
    else:
        _restore_hugging_face(model, encoder)


def _restore_model_garden(
    model: networks.BertEncoder, encoder: EncoderDirectory
) -> None:
    path = os.path.join(encoder.directory, MODEL_GARDEN_WEIGHTS)
    try:
        tf.train.Checkpoint(encoder=model).read(path).assert_consumed()
    except (AssertionError, ValueError, tf.errors.OpError) as error:
        raise EncoderError(f"{path} does not fit {encoder.config}: {error}") from error


def _restore_hugging_face(
    model: networks.BertEncoder, encoder: EncoderDirectory
) -> None:
    path = os.path.join(encoder.directory, HUGGING_FACE_WEIGHTS)
    with tf.io.gfile.GFile(path, "rb") as file:
        tensors = safetensors.numpy.load(file.read())
    for name in _TENSORS_WITHOUT_WEIGHTS:
        tensors.pop(name, None)
    sources = _tensor_sources(encoder.config["num_hidden_layers"])
    if _is_untrained_pooler(tensors):
        logging.info("The pooler of %s is untrained (bias 0): initialized anew", path)
        for name, variable_name in _POOLER_TENSORS.items():
            tensors.pop(name)
            del sources[variable_name]
    _check_names(path, set(tensors), set(sources.values()))
    for variable in model.variables:
        source = sources.pop(variable.name.removesuffix(":0"), None)
        if source is not None:
            _assign(variable, tensors[source], f"{path}: {source}")
        elif not variable.name.startswith("pooler_transform/"):
            raise EncoderError(f"{path} has no tensor for {variable.name}")
    if sources:
        raise EncoderError(f"{path}: no variable took {sorted(sources.values())}")


def _tensor_sources(layers: int) -> dict[str, str]:
    """Maps each Model Garden variable to its Hugging Face tensor."""
    tensors = {**_EMBEDDING_TENSORS, **_POOLER_TENSORS}
    for index in range(layers):
        for source, target in _LAYER_TENSORS.items():
            is_norm = source.endswith("LayerNorm")
            kernel, bias = ("gamma", "beta") if is_norm else ("kernel", "bias")
            source = f"encoder.layer.{index}.{source}"
            target = f"transformer/layer_{index}/{target}"
            tensors[f"{source}.weight"] = f"{target}/{kernel}"
            tensors[f"{source}.bias"] = f"{target}/{bias}"
    return {target: source for source, target in tensors.items()}


def _is_untrained_pooler(tensors: dict[str, np.ndarray]) -> bool:
    bias = tensors.get("pooler.dense.bias")
    return bias is not None and not bias.any()


def _check_names(path: str, found: set[str], expected: set[str]) -> None:
    problems = []
    if expected - found:
        problems.append(f"missing {', '.join(sorted(expected - found))}")
    if found - expected:
        problems.append(f"unexpected {', '.join(sorted(found - expected))}")
    if problems:
        raise EncoderError(f"{path}: {'; '.join(problems)}")


def _assign(variable: tf.Variable, tensor: np.ndarray, source: str) -> None:
    if source.endswith(".weight") and "/kernel" in variable.name:
        tensor = tensor.T  # PyTorch's Linear stores [out, in]
    # Attention keeps its heads as a dimension of their own.
    if tensor.size != np.prod(variable.shape) or (
        tensor.ndim == len(variable.shape) and tensor.shape != tuple(variable.shape)
    ):
        raise EncoderError(
            f"{source} has shape {tensor.shape}; {variable.name} has {variable.shape}"
        )
    variable.assign(tensor.reshape(variable.shape))


def _activation(encoder: EncoderDirectory) -> Callable[[tf.Tensor], tf.Tensor]:
    name = encoder.config.get("hidden_act", "gelu")
    if name == "gelu":
        if _APPROXIMATE_GELU[encoder.config_file]:
            return _approximate_gelu
        return tf_keras.activations.gelu
    return tf_keras.activations.get(name)


def _approximate_gelu(x: tf.Tensor) -> tf.Tensor:
    return tf_keras.activations.gelu(x, approximate=True)


def _check_files(encoder: EncoderDirectory) -> None:
    for name in (VOCAB_FILE, *_WEIGHTS_FILES[encoder.config_file]):
        if not tf.io.gfile.exists(encoder.path(name)):
            raise EncoderError(f"encoder {encoder.directory} has no {name}")
    with tf.io.gfile.GFile(encoder.vocab_file) as lines:
        words = sum(1 for _ in lines)
    if words != encoder.config["vocab_size"]:
        raise EncoderError(
            f"{encoder.vocab_file} has {words} tokens, {encoder.config_file} says "
            f"vocab_size {encoder.config['vocab_size']}"
        )
