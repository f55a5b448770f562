"""Weights as Hugging Face stores them: safetensors, one file or several."""

from __future__ import annotations

import dataclasses
import json
from collections.abc import Iterator
from typing import Any

import numpy as np
import safetensors
import tensorflow as tf
from absl import logging
from official.nlp.modeling import networks

from modules.encoder.accounting import Shape, check_tensors
from modules.encoder.directory import EncoderDirectory, EncoderError

_DTYPES: dict[str, np.dtype[Any]] = {
    "F64": np.dtype(np.float64),
    "F32": np.dtype(np.float32),
    "F16": np.dtype(np.float16),
    "BF16": np.dtype(tf.bfloat16.as_numpy_dtype),  # NumPy has none of its own
}
_HEADER_LENGTH_BYTES = 8

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
_TENSORS_WITHOUT_WEIGHTS = ("embeddings.position_ids",)  # 0, 1, 2, ...
# The heads of pre-training; those of another task would be a surprise.
_PRETRAINING_HEADS = ("cls.predictions.", "cls.seq_relationship.")
_MODEL_PREFIX = "bert."  # where the file is of an encoder with a head
_OLD_NAMES = {"LayerNorm.gamma": "LayerNorm.weight", "LayerNorm.beta": "LayerNorm.bias"}


@dataclasses.dataclass(frozen=True)
class _Stored:
    """A tensor as a file's header describes it."""

    name: str
    shape: Shape
    dtype: str


def check(encoder: EncoderDirectory) -> list[str]:
    """Compares the tensors' names and shapes with what the configuration asks for.

    It reads the files' headers alone, local or remote.

    Args:
      encoder: A Hugging Face folder.

    Returns:
      Names of the tensors that are no part of the encoder and are left out.

    Raises:
      EncoderError: A file cannot be read; a tensor is missing, unexpected, of another
        shape or no floating-point numbers.
    """
    stored = [tensor for path in encoder.weights_files for tensor in _header(path)]
    left_out = [tensor.name for tensor in stored if _is_left_out(tensor.name)]
    tensors: dict[str, _Stored] = {}
    # Today's names first: an older name for the same tensor is one too many.
    for tensor in sorted(stored, key=lambda t: t.name != canonical_name(t.name)):
        if not _is_left_out(tensor.name):
            name = canonical_name(tensor.name)
            tensors[tensor.name if name in tensors else name] = tensor
    expected = expected_shapes(encoder.config)
    if not tensors.keys() & _POOLER_TENSORS.keys():
        logging.info("%s has no pooler: initialized anew", encoder.directory)
        for name in _POOLER_TENSORS:
            del expected[name]
    path = encoder.path(encoder.weights_names[0])
    if len(encoder.weights_names) > 1:
        path = f"{path} to {encoder.weights_names[-1]}"
    found = {
        # An unexpected tensor is named as it is stored.
        name if name in expected else tensor.name: tensor.shape
        for name, tensor in tensors.items()
    }
    check_tensors(path, found, expected)
    odd = [f"{t.name} ({t.dtype})" for t in tensors.values() if t.dtype not in _DTYPES]
    if odd:
        raise EncoderError(f"{path}: no floating-point numbers: {', '.join(odd)}")
    return left_out


def restore(model: networks.BertEncoder, encoder: EncoderDirectory) -> list[str]:
    """Assigns every tensor of a Hugging Face folder to its variable.

    Args:
      model: The encoder that the folder describes.
      encoder: The folder. A pooler that it does not have stays as it was.

    Returns:
      Names of the tensors that are no part of the encoder and were left out.

    Raises:
      EncoderError: A tensor is missing, unexpected, or of another shape.
    """
    left_out = check(encoder)
    if left_out:
        logging.info("Left out of %s: %s", encoder.directory, ", ".join(left_out))
    variables = {v.name.removesuffix(":0"): v for v in model.variables}
    targets = _variable_names(encoder.config["num_hidden_layers"])
    for path in encoder.weights_files:
        for name, tensor in _tensors(path):
            variable = variables.pop(targets[canonical_name(name)])
            if name.endswith(".weight") and "/kernel" in variable.name:
                tensor = tensor.T  # PyTorch's Linear stores [out, in]
            # Attention keeps its heads as a dimension of their own.
            variable.assign(tensor.reshape(variable.shape))
    rest = variables.keys() - _POOLER_TENSORS.values()
    if rest:
        names = ", ".join(sorted(rest))
        raise EncoderError(f"{encoder.directory} has nothing for {names}")
    return left_out


def canonical_name(name: str) -> str:
    """Returns the name that a tensor of `BertModel` has today."""
    name = name.removeprefix(_MODEL_PREFIX)
    for old, new in _OLD_NAMES.items():
        if name.endswith(old):
            return name.removesuffix(old) + new
    return name


def expected_shapes(config: dict[str, Any]) -> dict[str, Shape]:
    """Returns the shape of every tensor that a configuration asks for, by its name."""
    hidden, inner = config["hidden_size"], config["intermediate_size"]
    rows = {
        "embeddings.word_embeddings.weight": config["vocab_size"],
        "embeddings.position_embeddings.weight": config["max_position_embeddings"],
        "embeddings.token_type_embeddings.weight": config["type_vocab_size"],
    }
    shapes: dict[str, Shape] = {}
    for name in _variable_names(config["num_hidden_layers"]):
        units = inner if ".intermediate." in name else hidden
        if name in rows:
            shapes[name] = (rows[name], hidden)
        elif name.endswith(".bias") or "LayerNorm" in name:
            shapes[name] = (units,)
        else:
            is_output = ".output.dense" in name and ".attention." not in name
            shapes[name] = (units, inner if is_output else hidden)
    return shapes


def _variable_names(layers: int) -> dict[str, str]:
    """Maps each Hugging Face tensor to its Model Garden variable."""
    names = {**_EMBEDDING_TENSORS, **_POOLER_TENSORS}
    for index in range(layers):
        for source, target in _LAYER_TENSORS.items():
            is_norm = source.endswith("LayerNorm")
            kernel, bias = ("gamma", "beta") if is_norm else ("kernel", "bias")
            source = f"encoder.layer.{index}.{source}"
            target = f"transformer/layer_{index}/{target}"
            names[f"{source}.weight"] = f"{target}/{kernel}"
            names[f"{source}.bias"] = f"{target}/{bias}"
    return names


def _is_left_out(name: str) -> bool:
    name = canonical_name(name)
    return name.startswith(_PRETRAINING_HEADS) or name in _TENSORS_WITHOUT_WEIGHTS


def _header(path: str) -> list[_Stored]:
    """Reads what a safetensors file holds: a length, JSON, and then the tensors."""
    with tf.io.gfile.GFile(path, "rb") as file:
        size = file.size()
        length = int.from_bytes(file.read(_HEADER_LENGTH_BYTES), "little")
        if not 0 < length <= size - _HEADER_LENGTH_BYTES:
            raise EncoderError(
                f"{path} is no safetensors file: {size} bytes, and a header of {length}"
            )
        text = file.read(length)
    try:
        header = json.loads(text)
    except ValueError as error:
        raise EncoderError(f"{path} is no safetensors file: {error}") from error
    header.pop("__metadata__", None)
    ends = [entry["data_offsets"][1] for entry in header.values()]
    whole = _HEADER_LENGTH_BYTES + length + max(ends, default=0)
    if size != whole:
        raise EncoderError(f"{path} has {size} bytes, not the {whole} of its header")
    return [
        _Stored(name, tuple(entry["shape"]), entry["dtype"])
        for name, entry in header.items()
    ]


def _tensors(path: str) -> Iterator[tuple[str, np.ndarray]]:
    """Yields the encoder's tensors as they are stored, float32 of any shape."""
    with tf.io.gfile.GFile(path, "rb") as file:
        stored: list[tuple[str, Any]] = safetensors.deserialize(file.read())
    for name, view in stored:
        if not _is_left_out(name):
            tensor = np.frombuffer(view["data"], dtype=_DTYPES[view["dtype"]])
            yield name, tensor.reshape(view["shape"]).astype(np.float32)
