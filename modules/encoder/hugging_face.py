"""Weights as Hugging Face stores them: safetensors, one file or several."""

from __future__ import annotations

import json
import math
from collections.abc import Iterator, Mapping
from typing import Any, NamedTuple

import numpy as np
import safetensors
import tensorflow as tf
from absl import logging

from modules.encoder.directory import EncoderDirectory
from modules.encoder.model import (
    EMBEDDING_NORM,
    POOLER,
    POSITION_EMBEDDING,
    TYPE_EMBEDDINGS,
    WORD_EMBEDDINGS,
    BertEncoder,
    Shape,
    check_tensors,
    variable_name,
    variable_shapes,
)
from modules.encoder_files import damaged, unsupported

_DTYPES: dict[str, np.dtype[Any]] = {
    "F64": np.dtype(np.float64),
    "F32": np.dtype(np.float32),
    "F16": np.dtype(np.float16),
    "BF16": np.dtype(tf.bfloat16.as_numpy_dtype),  # safetensors.numpy lacks it
}
_HEADER_LENGTH_BYTES = 8

# Hugging Face tensor -> Model Garden variable. PyTorch stores kernels transposed.
_EMBEDDING_TENSORS = {
    "embeddings.word_embeddings.weight": f"{WORD_EMBEDDINGS}/embeddings",
    "embeddings.position_embeddings.weight": f"{POSITION_EMBEDDING}/embeddings",
    "embeddings.token_type_embeddings.weight": f"{TYPE_EMBEDDINGS}/embeddings",
    "embeddings.LayerNorm.weight": f"{EMBEDDING_NORM}/gamma",
    "embeddings.LayerNorm.bias": f"{EMBEDDING_NORM}/beta",
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
    "pooler.dense.weight": f"{POOLER}/kernel",
    "pooler.dense.bias": f"{POOLER}/bias",
}
_OLD_NAMES = {"LayerNorm.gamma": "LayerNorm.weight", "LayerNorm.beta": "LayerNorm.bias"}


class _Stored(NamedTuple):
    """A tensor as a file's header describes it."""

    name: str
    shape: Shape
    dtype: str


class HuggingFaceWeights:
    """The weights of a Hugging Face folder. The constructor reads only the headers.

    Attributes:
      left_out: Names of the tensors that are not part of the encoder.

    Raises:
      EncoderError: A file cannot be read, or a tensor is missing, unexpected, of
        another shape or not floating-point.
    """

    def __init__(self, encoder: EncoderDirectory) -> None:
        self._encoder = encoder
        stored = [tensor for path in encoder.weights_files for tensor in _header(path)]
        self.left_out = [tensor.name for tensor in stored if _is_left_out(tensor.name)]
        tensors: dict[str, _Stored] = {}
        # Current names first: an older name for the same tensor is unexpected.
        for tensor in sorted(stored, key=lambda t: t.name != canonical_name(t.name)):
            if not _is_left_out(tensor.name):
                name = canonical_name(tensor.name)
                tensors[tensor.name if name in tensors else name] = tensor
        expected = expected_shapes(encoder.config)
        if not tensors.keys() & _POOLER_TENSORS.keys():
            logging.info(
                "%s has no pooler: it is initialized randomly", encoder.directory
            )
            for name in _POOLER_TENSORS:
                del expected[name]
        path = encoder.path(encoder.weights_names[0])
        if len(encoder.weights_names) > 1:
            path = f"{path} to {encoder.weights_names[-1]}"
        shapes = {
            # An unexpected tensor is reported under its stored name.
            name if name in expected else tensor.name: tensor.shape
            for name, tensor in tensors.items()
        }
        check_tensors(path, shapes, expected)
        others = [t for t in tensors.values() if t.dtype not in _DTYPES]
        if others:
            names = ", ".join(f"{tensor.name} ({tensor.dtype})" for tensor in others)
            raise unsupported(
                path, f"not floating-point: {names}", allowed=", ".join(_DTYPES)
            )

    def restore(self, model: BertEncoder) -> None:
        """Assigns every variable, except a pooler that the folder lacks."""
        variables = {variable_name(variable): variable for variable in model.variables}
        names = _variable_names(self._encoder.config["num_hidden_layers"])
        for path in self._encoder.weights_files:
            for tensor_name, tensor in _tensors(path):
                name = names[canonical_name(tensor_name)]
                if name.endswith("/kernel"):
                    tensor = tensor.T  # PyTorch's Linear stores [out, in]
                # Attention keeps its heads as an axis.
                variables[name].assign(tensor.reshape(variables[name].shape))


def canonical_name(name: str) -> str:
    """Returns the current name of a tensor of `BertModel`."""
    name = name.removeprefix("bert.")  # of an encoder with a head
    for old, new in _OLD_NAMES.items():
        if name.endswith(old):
            return name.removesuffix(old) + new
    return name


def expected_shapes(config: Mapping[str, Any]) -> dict[str, Shape]:
    """Returns the shape of every tensor of an encoder by its Hugging Face name."""
    shapes = variable_shapes(config)
    names = _variable_names(config["num_hidden_layers"])
    return {name: _stored_shape(variable, shapes) for name, variable in names.items()}


def to_tensors(
    variables: Mapping[str, np.ndarray], config: Mapping[str, Any]
) -> dict[str, np.ndarray]:
    """Returns the variables of an encoder as the tensors of Hugging Face's `BertModel`.

    The inverse of `HuggingFaceWeights.restore`.

    Returns:
      float32 tensors by name, contiguous as safetensors needs them.
    """
    names = _variable_names(config["num_hidden_layers"])
    tensors = {}
    for name, shape in expected_shapes(config).items():
        value, is_kernel = variables[names[name]], names[name].endswith("/kernel")
        tensor = value.reshape(shape[::-1]).T if is_kernel else value.reshape(shape)
        tensors[name] = np.ascontiguousarray(tensor, np.float32)
    return tensors


def _stored_shape(variable: str, shapes: Mapping[str, Shape]) -> Shape:
    shape = shapes[variable]
    if variable.endswith("/kernel"):
        outputs = math.prod(shapes[variable.replace("/kernel", "/bias")])
        return (outputs, math.prod(shape) // outputs)
    return shape if variable.endswith("/embeddings") else (math.prod(shape),)


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
    # The heads of pre-training; a head of another task is unexpected. The position ids
    # are 0, 1, 2, and so on.
    heads = ("cls.predictions.", "cls.seq_relationship.")
    return name.startswith(heads) or name == "embeddings.position_ids"


def _header(path: str) -> list[_Stored]:
    """Reads a safetensors file's header: a length, then JSON."""
    with tf.io.gfile.GFile(path, "rb") as file:
        size = file.size()
        length = int.from_bytes(file.read(_HEADER_LENGTH_BYTES), "little")
        if not 0 < length <= size - _HEADER_LENGTH_BYTES:
            raise damaged(
                path,
                f"not a safetensors file: it has {size} bytes and a header of {length}",
            )
        text = file.read(length)
    try:
        header = json.loads(text)
    except ValueError as error:
        raise damaged(path, f"not a safetensors file: {error}") from error
    header.pop("__metadata__", None)
    ends = [entry["data_offsets"][1] for entry in header.values()]
    whole = _HEADER_LENGTH_BYTES + length + max(ends, default=0)
    if size != whole:
        raise damaged(path, f"{size} bytes; its header lists {whole}")
    return [
        _Stored(name, tuple(entry["shape"]), entry["dtype"])
        for name, entry in header.items()
    ]


def _tensors(path: str) -> Iterator[tuple[str, np.ndarray]]:
    """Yields the encoder's tensors by stored name, cast to float32."""
    with tf.io.gfile.GFile(path, "rb") as file:
        stored: list[tuple[str, Any]] = safetensors.deserialize(file.read())
    for name, view in stored:
        if not _is_left_out(name):
            tensor = np.frombuffer(view["data"], dtype=_DTYPES[view["dtype"]])
            yield name, tensor.reshape(view["shape"]).astype(np.float32)
