"""The graph of a published SavedModel, read as a protocol buffer.

A SavedModel stores no configuration. Its graph shows the activation and the epsilon,
which the shapes of the variables do not.
"""

from __future__ import annotations

import os
import re
from typing import Any

import numpy as np
import tensorflow as tf
from google.protobuf.message import DecodeError
from tensorflow.core.framework.node_def_pb2 import NodeDef
from tensorflow.core.protobuf import saved_model_pb2

from contracts.versions.exported_model import GRAPH_FILE
from modules.encoder_files import APPROXIMATE_GELU_KEY, damaged, unsupported

# Version 1 of small_bert was published with version 3 of bert_*, 2 with 4.
READABLE_HANDLES = (
    "tensorflow/bert_* (version 3 or 4) or tensorflow/small_bert/* (version 1 or 2)"
)
# Keras names an op by its layer. These ops of a layer normalization have its epsilon.
_EPSILON = re.compile(r"(.*/)?\w*layer_norm/(batchnorm/add/y|FusedBatchNormV3)")
_QUERY = re.compile(r"(.*/)?self_attention/query/einsum/Einsum")
_ATTENTION_NORM = re.compile(r"(.*/)?self_attention_layer_norm/.*")


class SavedGraph:
    """The nodes in the functions of a SavedModel.

    Raises:
      EncoderError: The SavedModel cannot be read, or TensorFlow 1 wrote it, which
        stores no graph of objects.
    """

    def __init__(self, directory: str) -> None:
        self._directory = directory
        path = os.path.join(directory, GRAPH_FILE)
        with tf.io.gfile.GFile(path, "rb") as file:
            content = file.read()
        try:
            graphs = saved_model_pb2.SavedModel.FromString(content).meta_graphs
        except DecodeError as error:
            raise damaged(path, f"not a readable SavedModel: {error}") from error
        if len(graphs) != 1 or not graphs[0].HasField("object_graph_def"):
            raise unsupported(
                directory,
                "a SavedModel of TensorFlow 1, as TF Hub's google/bert_* and "
                "google/small_bert/*",
                advice=f"take the same encoder from {READABLE_HANDLES}, or export it "
                "with TensorFlow 2",
            )
        functions = graphs[0].graph_def.library.function
        self._nodes = [node for function in functions for node in function.node_def]
        self._ops = {node.op for node in self._nodes}

    def describe(self) -> dict[str, Any]:
        """Returns the settings that the shapes of an encoder's variables do not show.

        Returns:
          `hidden_act`, which "gelu" it is, and `layer_norm_eps`.

        Raises:
          EncoderError: The graph is not BERT's, or has no epsilon.
        """
        normalizes_first = any(
            _QUERY.fullmatch(node.name) and _ATTENTION_NORM.fullmatch(node.input[0])
            for node in self._nodes
        )
        if normalizes_first:
            raise unsupported(
                self._directory,
                "the variables of a BERT, but it normalizes before the attention",
                allowed="normalizing after it",
            )
        return {**self._activation(), "layer_norm_eps": self._epsilon()}

    def find_lower_case(self) -> bool | None:
        """Returns whether the Model Garden's `BertTokenizer` lowers the case of text.

        Returns:
          None if the SavedModel has another tokenizer, or no tokenizer.
        """
        if "WordpieceTokenizeWithOffsets" not in self._ops:
            return None
        return "CaseFoldUTF8" in self._ops

    def _activation(self) -> dict[str, Any]:
        if "Relu" in self._ops:
            return {"hidden_act": "relu"}
        is_exact = bool(self._ops & {"Erf", "Erfc"})
        # The pooler has a Tanh as well; the approximation also has a third power.
        if not is_exact and not self._ops >= {"Tanh", "Pow"}:
            raise unsupported(
                self._directory,
                "the variables of a BERT, but no op of its activation",
                allowed="GELU (Erf, or Tanh and Pow) and Relu",
            )
        return {"hidden_act": "gelu", APPROXIMATE_GELU_KEY: not is_exact}

    def _epsilon(self) -> float:
        norms = [node for node in self._nodes if _EPSILON.fullmatch(node.name)]
        stored = [v for n in norms if (v := _stored_epsilon(n)) is not None]
        # The shortest number that float32 rounds to the same value.
        values = {float(str(np.float32(value))) for value in stored}
        if not values:
            raise unsupported(
                os.path.join(self._directory, GRAPH_FILE),
                "no epsilon of a layer normalization: a constant "
                "layer_norm/batchnorm/add/y, or the attribute of "
                "layer_norm/FusedBatchNormV3",
                advice="use the encoder's Model Garden checkpoint with its "
                "bert_config.json, or export it again with the Model Garden's "
                "export_tfhub",
            )
        if len(values) > 1:
            raise unsupported(
                self._directory,
                "layer normalizations of epsilon "
                f"{', '.join(map(str, sorted(values)))}",
                allowed="one for all",
            )
        return values.pop()


def _stored_epsilon(node: NodeDef) -> float | None:
    if node.op == "FusedBatchNormV3":
        return node.attr["epsilon"].f
    tensor = node.attr["value"].tensor
    if node.op != "Const" or tensor.tensor_shape.dim:
        return None
    return float(tf.make_ndarray(tensor))
