"""Builds a row for each signature, to run it before the first request."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence

import numpy as np
import tensorflow as tf
from tensorflow.core.example import example_pb2
from tensorflow.core.framework import graph_pb2, node_def_pb2, types_pb2

from serving.signatures import Signature, Tensors, TensorSpec

_SPARSE_KEYS, _DENSE_KEYS = 2, 3  # positions in the inputs of ParseExampleV2
_VALUES = {
    types_pb2.DT_STRING: ("bytes_list", b""),
    types_pb2.DT_FLOAT: ("float_list", 1.0),
    types_pb2.DT_INT64: ("int64_list", 1),  # a mask of zeros would hide every token
}


def build_rows(signature: Signature, example: bytes | None) -> Iterator[Tensors]:
    """Yields one-row inputs to try on a signature, the likeliest first.

    Args:
      signature: The signature.
      example: The model's Example, serialized; None if the model parses no Examples.
    """
    specs = signature.inputs
    blank = {name: _fill(spec, 0) for name, spec in specs.items()}
    if example is not None and len(specs) == 1:
        ((name, spec),) = specs.items()
        if spec.dtype == object:
            yield {name: _fill(spec, example)}
    yield blank


def build_example(graph: graph_pb2.GraphDef) -> bytes | None:
    """Returns a serialized Example with every feature that a graph parses.

    A feature has ones or empty strings, as many as its shape requires.

    Args:
      graph: The graph of a SavedModel with its functions.

    Returns:
      The Example; None if the graph parses no Examples.
    """
    example = example_pb2.Example()
    for nodes in (graph.node, *(f.node_def for f in graph.library.function)):
        for node in nodes:
            if node.op == "ParseExampleV2":
                _add_features(example, node, nodes)
    return example.SerializeToString() if example.features.feature else None


def _add_features(
    example: example_pb2.Example,
    parser: node_def_pb2.NodeDef,
    nodes: Sequence[node_def_pb2.NodeDef],
) -> None:
    sparse = zip(
        _read_keys(parser.input[_SPARSE_KEYS], nodes),
        parser.attr["sparse_types"].list.type,
        strict=False,  # keys that are not constant are unknown
    )
    dense = zip(
        _read_keys(parser.input[_DENSE_KEYS], nodes),
        parser.attr["Tdense"].list.type,
        parser.attr["dense_shapes"].list.shape,
        strict=False,
    )
    features = [(key, dtype, 1) for key, dtype in sparse]
    for key, dtype, shape in dense:
        features.append((key, dtype, math.prod(max(dim.size, 1) for dim in shape.dim)))
    for key, dtype, count in features:
        kind, value = _VALUES[dtype]
        values = getattr(example.features.feature[key], kind).value
        values.extend([value] * (count - len(values)))


def _read_keys(name: str, nodes: Sequence[node_def_pb2.NodeDef]) -> list[str]:
    """Returns the strings of a constant; an empty list for any other node."""
    for node in nodes:
        if node.name == name.partition(":")[0] and node.op == "Const":
            return [key.decode() for key in tf.make_ndarray(node.attr["value"].tensor)]
    return []


def _fill(spec: TensorSpec, value: bytes | int) -> np.ndarray:
    shape = [1 if size is None else size for size in spec.shape or (None,)]
    if spec.dtype == object:
        # `np.full` would strip trailing zero bytes.
        return np.array([value or b""] * math.prod(shape), object).reshape(shape)
    return np.full(shape, value, spec.dtype)
