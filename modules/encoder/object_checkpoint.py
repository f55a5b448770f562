"""TensorFlow 2 checkpoints, read as tensors and a graph of objects."""

from __future__ import annotations

import dataclasses
import math
import os
from collections.abc import Iterable, Iterator

import numpy as np
import tensorflow as tf
from tensorflow.core.protobuf.trackable_object_graph_pb2 import TrackableObjectGraph

from contracts.storage import uris
from modules.encoder.directory import EncoderError
from modules.encoder.model import BertEncoder
from modules.encoder.tensors import Shape, variable_name

_OBJECT_GRAPH = "_CHECKPOINTABLE_OBJECT_GRAPH"
KEY_SUFFIX = "/.ATTRIBUTES/VARIABLE_VALUE"
ROOT = 0


class ObjectCheckpoint:
    """A checkpoint of objects, such as the variables of a SavedModel.

    Attributes:
      path: Path of the checkpoint, without the files' suffixes.
      shapes: Shape of each tensor by its key.

    Raises:
      EncoderError: The checkpoint cannot be read, has no graph of objects, or its files
        are too short.
      UsageError: TensorFlow would read the path as a file pattern.
    """

    def __init__(self, path: str, data_files: Iterable[str]) -> None:
        self.path = path
        uris.refuse_pattern("encoder", os.path.dirname(path))
        try:
            self._reader = tf.train.load_checkpoint(path)
            shapes = self._reader.get_variable_to_shape_map()
            if _OBJECT_GRAPH not in shapes:
                raise EncoderError(
                    got=f"{path} is a TensorFlow 1 checkpoint; convert it first, with "
                    "official.nlp.tools.tf2_bert_encoder_checkpoint_converter",
                    name="E-encoder-not-supported",
                )
            graph = self._reader.get_tensor(_OBJECT_GRAPH)
            self._nodes = TrackableObjectGraph.FromString(graph).nodes
        # RuntimeError: TensorFlow's reader does not translate a wrong checksum.
        except (ValueError, IndexError, RuntimeError, tf.errors.OpError) as error:
            raise EncoderError(
                got=f"{path} is not a readable checkpoint: {error}",
                name="E-encoder-file-damaged",
            ) from error
        del shapes[_OBJECT_GRAPH]
        self.shapes: dict[str, Shape] = {k: tuple(v) for k, v in shapes.items()}
        dtypes = self._reader.get_variable_to_dtype_map()
        needed = sum(math.prod(shapes[key]) * dtypes[key].size for key in shapes)
        size = sum(tf.io.gfile.stat(file).length for file in data_files)
        if size < needed:
            raise EncoderError(
                got=f"{path} has {size} bytes of data, but its index lists {needed}: the "
                "checkpoint is incomplete; copy it again",
                name="E-encoder-file-damaged",
            )

    def children(self, node: int) -> dict[str, int]:
        """Returns the nodes below a node, by the name of the attribute."""
        # Keras also tracks its layers as `layer-0`, `layer-1` and so on. These come
        # last: the number of a layer depends on the layers before it, so it could match
        # the pooler of one encoder with a block of another.
        nodes = {
            child.local_name: child.node_id for child in self._nodes[node].children
        }
        return dict(sorted(nodes.items(), key=lambda item: item[0].startswith("layer")))

    def reachable(self, root: int) -> set[int]:
        """Returns all nodes below a node, and the node."""
        reached, pending = set(), [root]
        while pending:
            node = pending.pop()
            if node not in reached:
                reached.add(node)
                pending += self.children(node).values()
        return reached

    def variables(self, nodes: Iterable[int]) -> Iterator[tuple[int, str, str]]:
        """Yields node, name and key of the variables among some nodes."""
        for node in nodes:
            for attribute in self._nodes[node].attributes:
                yield node, attribute.full_name, attribute.checkpoint_key

    def read(self, key: str) -> np.ndarray:
        """Returns a tensor."""
        return np.asarray(self._reader.get_tensor(key))


@dataclasses.dataclass(frozen=True)
class CheckpointWeights:
    """An encoder's weights in a checkpoint.

    Attributes:
      checkpoint: The checkpoint.
      keys: Key of each variable's tensor by the variable's name.
      left_out: Names of the tensors that are not part of the encoder.
    """

    checkpoint: ObjectCheckpoint
    keys: dict[str, str]
    left_out: list[str]

    def restore(self, model: BertEncoder) -> None:
        """Assigns every variable of an encoder."""
        for variable in model.variables:
            key = self.keys[variable_name(variable)]
            variable.assign(self.checkpoint.read(key))
