"""A SavedModel in the memory of this process."""

from __future__ import annotations

import logging
import re
from pathlib import Path

import numpy as np
import tensorflow as tf
import tensorflow_text  # noqa: F401 (registers the tokenizer's ops)
from tensorflow.core.protobuf import meta_graph_pb2, saved_model_pb2

from contracts.versions.served_versions import CARD_FILE, GRAPH_FILE
from serving import model_files
from serving.errors import Code, RequestError, invalid, is_invalid
from serving.model_facts import ServedModel
from serving.saved_models import signature_defs, warm_up
from serving.saved_models.signature_defs import SavedModelFacts
from serving.signatures import Signature, Tensors, TensorSpec

logger = logging.getLogger(__name__)


class Model(SavedModelFacts, ServedModel):
    """A SavedModel in the memory of this process.

    Args:
      directory: The SavedModel.
      version: Its version.
    """

    def __init__(self, directory: Path, version: int) -> None:
        graph = _read_meta_graph(directory)
        self._example = warm_up.build_example(graph.graph_def)
        # The signatures do not keep their variables alive; this object does.
        self._loaded = tf.saved_model.load(
            str(directory), tags=[tf.saved_model.SERVING]
        )
        self._functions = dict(self._loaded.signatures)
        text_columns = None
        if hasattr(self._loaded, "text_columns"):
            names = self._loaded.text_columns().numpy()
            text_columns = [name.decode() for name in names]
        definitions = dict(graph.signature_def)
        super().__init__(
            card=directory / CARD_FILE,
            version=version,
            signatures={
                name: Signature(
                    name,
                    _specs(definitions[name].inputs),
                    _specs(definitions[name].outputs),
                )
                for name in self._functions
            },
            signature_metadata=signature_defs.as_json(definitions),
            signature_defs=definitions,
            text_columns=text_columns,
            description=model_files.read_description(directory),
        )

    @property
    def is_alive(self) -> bool:
        """Whether it can run; True as long as this process does."""
        return True

    def close(self) -> None:
        """Frees what Python does not; nothing."""

    def run(self, signature: str, inputs: Tensors) -> dict[str, np.ndarray]:
        """Runs a signature; see `ServedModel.run`.

        Raises:
          RequestError: TensorFlow fails.
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
            code = Code(error.error_code)
            raise RequestError(code, got=_shorten(error.message)) from error
        except UnicodeDecodeError as error:  # TensorFlow's message quotes the input
            raise invalid("inputs", "bytes that are not UTF-8") from error
        return {
            name: np.asarray(outputs[name].numpy(), spec.dtype)
            for name, spec in self.signatures[signature].outputs.items()
        }

    def warm_up(self) -> dict[str, Exception]:
        """Runs every signature with a row of zeros, empty strings or Examples.

        Returns:
          The errors of the signatures that failed, by name.
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
        except (TypeError, ValueError) as error:  # no row can be built for an input
            errors.append(error)
        # An error of the model is more useful than one of the made-up row.
        return min(errors, key=is_invalid)


def load(directory: Path, version: int) -> Model:
    """Loads a model and warms it up.

    Args:
      directory: The SavedModel.
      version: Its version.

    Raises:
      RuntimeError: Every signature fails, and not because of the made-up row.
    """
    model = Model(directory, version)
    problems = model.warm_up()
    for name, problem in problems.items():
        logger.warning("version %d: signature %s fails: %s", version, name, problem)
    # A signature may refuse a made-up row, for example one that is not an image.
    broken = {name for name, problem in problems.items() if not is_invalid(problem)}
    if broken and broken == model.signatures.keys():
        raise RuntimeError(f"every signature of version {version} fails")
    return model


def _read_meta_graph(directory: Path) -> meta_graph_pb2.MetaGraphDef:
    saved_model = saved_model_pb2.SavedModel()
    saved_model.ParseFromString((directory / GRAPH_FILE).read_bytes())
    for graph in saved_model.meta_graphs:
        if tf.saved_model.SERVING in graph.meta_info_def.tags:
            return graph
    raise ValueError(f"{directory} has no graph with the tag {tf.saved_model.SERVING}")


def _specs(infos: dict[str, meta_graph_pb2.TensorInfo]) -> dict[str, TensorSpec]:
    specs = {}
    for name, info in sorted(infos.items()):
        shape = tf.TensorShape(info.tensor_shape)
        specs[name] = TensorSpec(
            np.dtype(tf.as_dtype(info.dtype).as_numpy_dtype),
            None if shape.rank is None else tuple(shape.as_list()),
        )
    return specs


def _shorten(message: str) -> str:
    """Removes the Python stack of the graph's author, and the function's name."""
    message = re.sub(r"(?s)^Graph execution error:.*?<stack traces.*?>\n", "", message)
    message = re.sub(
        r"^Graph execution error:\n+(Detected at node .*\n((?: .*)?\n)*)*", "", message
    )
    return re.sub(r" \[Op:\w+\]$", "", message)
