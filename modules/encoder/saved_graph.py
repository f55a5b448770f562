"""The settings of an encoder that the graph of its SavedModel holds.

A SavedModel stores no configuration. Its graph, read as a protocol buffer, has the
activation and the epsilon, which the shapes of the variables do not show.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterator
from typing import Any

import numpy as np
import tensorflow as tf
from google.protobuf.message import DecodeError
from tensorflow.core.framework.node_def_pb2 import NodeDef
from tensorflow.core.protobuf import saved_model_pb2

from modules.encoder.directory import APPROXIMATE_GELU_KEY, EncoderError

GRAPH_FILE = "saved_model.pb"
# Keras names an op by its layer; a layer normalization adds its epsilon here.
_EPSILON = re.compile(r"(.*/)?\w*layer_norm/(batchnorm/add/y|FusedBatchNormV3)")
_QUERY = re.compile(r"(.*/)?self_attention/query/einsum/Einsum")
_ATTENTION_NORM = re.compile(r"(.*/)?self_attention_layer_norm/.*")


def check_generation(directory: str) -> None:
    """Refuses a SavedModel of TensorFlow 1, which has no graph of objects.

    Raises:
      EncoderError: It is one, or cannot be read.
    """
    graphs = _read(directory).meta_graphs
    if len(graphs) != 1 or not graphs[0].HasField("object_graph_def"):
        raise EncoderError(
            f"SavedModel {directory} is one of TensorFlow 1; export it with TensorFlow "
            "2 (on TF Hub, version 3 or later)"
        )


def describe(directory: str) -> dict[str, Any]:
    """Returns the part of a configuration that an encoder's variables do not show.

    Args:
      directory: A SavedModel, local or remote.

    Returns:
      `hidden_act`, which "gelu" it is, and `layer_norm_eps`.

    Raises:
      EncoderError: It cannot be read, or its graph is not BERT's or has no epsilon.
    """
    nodes = list(_nodes(directory))
    is_first = any(
        _QUERY.fullmatch(node.name) and _ATTENTION_NORM.fullmatch(node.input[0])
        for node in nodes
    )
    if is_first:
        raise EncoderError(
            f"SavedModel {directory} has the variables of a BERT, but normalizes "
            "before the attention: not its architecture. BERT normalizes after it"
        )
    return {**_activation(directory, nodes), **_epsilon(directory, nodes)}


def find_lower_case(directory: str) -> bool | None:
    """Returns whether a preprocessor of the Model Garden's puts text in lower case.

    Args:
      directory: Its SavedModel, local or remote.

    Returns:
      None if it has another tokenizer than the Model Garden's `BertTokenizer`.

    Raises:
      EncoderError: It cannot be read.
    """
    ops = {node.op for node in _nodes(directory)}
    return "CaseFoldUTF8" in ops if "WordpieceTokenizeWithOffsets" in ops else None


def _activation(directory: str, nodes: list[NodeDef]) -> dict[str, Any]:
    ops = {node.op for node in nodes}
    if "Relu" in ops:
        return {"hidden_act": "relu"}
    is_exact = bool(ops & {"Erf", "Erfc"})
    # The pooler has a Tanh of its own; the approximation has a third power, too.
    if not is_exact and not ops >= {"Tanh", "Pow"}:
        raise EncoderError(
            f"SavedModel {directory} has the variables of a BERT, but no op of its "
            "activation: supported are GELU (Erf, or Tanh and Pow) and Relu"
        )
    return {"hidden_act": "gelu", APPROXIMATE_GELU_KEY: not is_exact}


def _epsilon(directory: str, nodes: list[NodeDef]) -> dict[str, float]:
    stored = [_stored_epsilon(node) for node in nodes if _EPSILON.fullmatch(node.name)]
    # The shortest number that float32 rounds to the same value.
    values = {float(str(np.float32(value))) for value in stored if value is not None}
    if not values:
        raise EncoderError(
            f"{os.path.join(directory, GRAPH_FILE)} has no epsilon of a layer "
            "normalization: a constant layer_norm/batchnorm/add/y, or the attribute "
            "of layer_norm/FusedBatchNormV3. Use the encoder's Model Garden "
            "checkpoint with its bert_config.json, or export it again with the Model "
            "Garden's export_tfhub"
        )
    if len(values) > 1:
        raise EncoderError(
            f"SavedModel {directory} has layer normalizations of epsilon "
            f"{', '.join(map(str, sorted(values)))}; BERT has one for all"
        )
    return {"layer_norm_eps": values.pop()}


def _stored_epsilon(node: NodeDef) -> float | None:
    if node.op == "FusedBatchNormV3":
        return node.attr["epsilon"].f
    tensor = node.attr["value"].tensor
    if node.op != "Const" or tensor.tensor_shape.dim:
        return None
    return float(tf.make_ndarray(tensor))


def _nodes(directory: str) -> Iterator[NodeDef]:
    for graph in _read(directory).meta_graphs:
        for function in graph.graph_def.library.function:
            yield from function.node_def


def _read(directory: str) -> saved_model_pb2.SavedModel:
    path = os.path.join(directory, GRAPH_FILE)
    with tf.io.gfile.GFile(path, "rb") as file:
        content = file.read()
    try:
        return saved_model_pb2.SavedModel.FromString(content)
    except DecodeError as error:
        raise EncoderError(f"{path} is no readable SavedModel: {error}") from error
