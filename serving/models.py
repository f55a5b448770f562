"""A loaded version of a model: what it takes, and how it answers."""

from __future__ import annotations

import re
from pathlib import Path

import grpc
import numpy as np
import tensorflow as tf
import tensorflow_text  # noqa: F401 (registers the tokenizer's ops)
from google.protobuf import text_format
from tensorflow.core.framework import types_pb2
from tensorflow.core.protobuf import meta_graph_pb2, saved_model_pb2

from serving import warm_up
from serving.errors import RequestError, invalid, is_invalid
from serving.signatures import Signature, Tensors, TensorSpec

SERVING_DEFAULT = "serving_default"
_TAG = "serve"
_CODES = {code.value[0]: code for code in grpc.StatusCode}


class Model:
    """A SavedModel in memory.

    Attributes:
      version: Its version.
      signatures: What it can be asked, by name.
      signature_defs: The same as TensorFlow Serving tells it.
      text_columns: The names of its texts in order, of a model of this project; None
        of another.
    """

    def __init__(self, directory: Path, version: int) -> None:
        """Loads a SavedModel.

        Args:
          directory: The SavedModel.
          version: Its version.
        """
        self.version = version
        graph = _read_meta_graph(directory)
        self.signature_defs = dict(graph.signature_def)
        self._example = warm_up.build_example(graph.graph_def)
        # Holds the variables of the signatures alive.
        self._loaded = tf.saved_model.load(str(directory), tags=[_TAG])
        self._functions = dict(self._loaded.signatures)
        self.signatures = {
            name: Signature(
                name,
                _specs(self.signature_defs[name].inputs),
                _specs(self.signature_defs[name].outputs),
            )
            for name in self._functions
        }
        self.text_columns = None
        # A signature sorts its arguments by name; our models keep their order.
        if hasattr(self._loaded, "text_columns"):
            self.text_columns = [
                name.decode() for name in self._loaded.text_columns().numpy()
            ]

    def run(self, signature: str, inputs: Tensors) -> dict[str, np.ndarray]:
        """Answers.

        Args:
          signature: A name of `signatures`.
          inputs: Tensors that it takes.

        Returns:
          Its outputs by name, in alphabetic order; strings as objects, of bytes.

        Raises:
          RequestError: TensorFlow cannot compute it.
        """
        specs = self.signatures[signature].inputs
        tensors = {
            name: tf.constant(tensor, tf.string if tensor.dtype == object else None)
            for name, tensor in inputs.items()
            if name in specs
        }
        try:
            outputs = self._functions[signature](**tensors)
        except tf.errors.OpError as error:
            code = _CODES.get(error.error_code, grpc.StatusCode.UNKNOWN)
            raise RequestError(code, _shorten(error.message)) from error
        except UnicodeDecodeError as error:  # TensorFlow's message quotes the input
            raise invalid(
                "The model cannot read the inputs, which have bytes that are not UTF-8"
            ) from error
        return {
            name: np.asarray(outputs[name].numpy(), spec.dtype)
            for name, spec in self.signatures[signature].outputs.items()
        }

    def warm_up(self) -> dict[str, Exception]:
        """Runs every signature with a row of zeros, empty strings or Examples.

        Returns:
          The error of each signature that failed, by its name.
        """
        problems = {name: self._find_problem(name) for name in self.signatures}
        return {name: error for name, error in problems.items() if error is not None}

    def _find_problem(self, name: str) -> Exception | None:
        errors: list[Exception] = []
        try:
            for row in warm_up.build_rows(self.signatures[name], self._example):
                try:
                    self.run(name, row)
                except RequestError as error:
                    errors.append(error)
                else:
                    return None
        except (TypeError, ValueError) as error:  # of an input that no row is made for
            errors.append(error)
        # A row that gets further than the others shows what the model lacks.
        return min(errors, key=is_invalid)


def _read_meta_graph(directory: Path) -> meta_graph_pb2.MetaGraphDef:
    saved_model = saved_model_pb2.SavedModel()
    binary = directory / "saved_model.pb"
    if binary.is_file():
        saved_model.ParseFromString(binary.read_bytes())
    else:
        text = (directory / "saved_model.pbtxt").read_text()
        text_format.Parse(text, saved_model)
    for graph in saved_model.meta_graphs:
        if _TAG in graph.meta_info_def.tags:
            return graph
    raise ValueError(f"{directory} has no graph with the tag {_TAG!r}")


def _specs(infos: dict[str, meta_graph_pb2.TensorInfo]) -> dict[str, TensorSpec]:
    return {name: _spec(infos[name]) for name in sorted(infos)}


def _spec(info: meta_graph_pb2.TensorInfo) -> TensorSpec:
    shape = tf.TensorShape(info.tensor_shape)
    return TensorSpec(
        types_pb2.DataType.Name(info.dtype).removeprefix("DT_").lower(),
        np.dtype(tf.as_dtype(info.dtype).as_numpy_dtype),
        None if shape.rank is None else tuple(shape.as_list()),
    )


def _shorten(message: str) -> str:
    """Leaves out where Python built the graph, and the name of the function."""
    message = re.sub(r"(?s)^Graph execution error:.*?<stack traces.*?>\n", "", message)
    message = re.sub(
        r"^Graph execution error:\n+(Detected at node .*\n((?: .*)?\n)*)*", "", message
    )
    return re.sub(r" \[Op:\w+\]$", "", message)
