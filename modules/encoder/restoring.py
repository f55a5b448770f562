"""Pre-trained weights of either format, every tensor checked.

The Model Garden stores them in a TensorFlow checkpoint of objects, which is read here.
"""

from __future__ import annotations

import collections
import dataclasses
import math
import os
from collections.abc import Iterable, Iterator

import numpy as np
import tensorflow as tf
from absl import logging
from tensorflow.core.protobuf.trackable_object_graph_pb2 import TrackableObjectGraph

from contracts.storage import uris
from modules.encoder.directory import EncoderDirectory
from modules.encoder.hugging_face import HuggingFaceWeights
from modules.encoder.model import (
    POOLER,
    BertEncoder,
    Shape,
    build_encoder,
    check_tensors,
    variable_name,
    variable_shapes,
)
from modules.encoder_files import SIZE_KEYS, damaged, unsupported

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
        uris.refuse_pattern("encoder.source", os.path.dirname(path))
        try:
            self._reader = tf.train.load_checkpoint(path)
            shapes = self._reader.get_variable_to_shape_map()
            if _OBJECT_GRAPH not in shapes:
                raise unsupported(
                    path,
                    "a TensorFlow 1 checkpoint",
                    advice="convert it with "
                    "official.nlp.tools.tf2_bert_encoder_checkpoint_converter",
                )
            graph = self._reader.get_tensor(_OBJECT_GRAPH)
            self._nodes = TrackableObjectGraph.FromString(graph).nodes
        # RuntimeError: TensorFlow's reader does not translate a wrong checksum.
        except (ValueError, IndexError, RuntimeError, tf.errors.OpError) as error:
            raise damaged(path, f"not a readable checkpoint: {error}") from error
        del shapes[_OBJECT_GRAPH]
        self.shapes: dict[str, Shape] = {k: tuple(v) for k, v in shapes.items()}
        dtypes = self._reader.get_variable_to_dtype_map()
        needed = sum(math.prod(shapes[key]) * dtypes[key].size for key in shapes)
        size = sum(tf.io.gfile.stat(file).length for file in data_files)
        if size < needed:
            raise damaged(path, f"{size} bytes of data; its index lists {needed}")

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


def check_tensor_names(encoder: EncoderDirectory) -> None:
    """Compares the names and shapes of an encoder's tensors with BERT's.

    It reads almost no weights, so that a run can refuse an encoder at its start.

    Raises:
      EncoderError: The weights cannot be read, or a tensor is missing, unexpected, or
        of another shape.
    """
    if encoder.is_model_garden:
        _read_checkpoint(encoder)
    else:
        HuggingFaceWeights(encoder)


def restore_encoder(model: BertEncoder, encoder: EncoderDirectory) -> None:
    """Loads the pre-trained weights.

    A pooler whose bias is 0 was never trained, as in sentence embedding models. The
    model then keeps its initial pooler.

    Raises:
      EncoderError: A tensor is missing, unexpected, or of another shape.
    """
    untrained = model.pooler_layer.get_weights()
    load_weights(model, encoder)
    _, bias = model.pooler_layer.get_weights()
    if not bias.any():
        logging.info("The pooler of %s is untrained (bias 0)", encoder.directory)
        model.pooler_layer.set_weights(untrained)


def load_weights(model: BertEncoder, encoder: EncoderDirectory) -> list[str]:
    """Loads the weights as they are stored, an untrained pooler included.

    Returns:
      Names of the tensors that are not part of the encoder and were left out.

    Raises:
      EncoderError: A tensor is missing, unexpected, or of another shape.
    """
    weights = (
        _read_checkpoint(encoder, model)
        if encoder.is_model_garden
        else HuggingFaceWeights(encoder)
    )
    weights.restore(model)
    if weights.left_out:
        logging.info(
            "Left out of %s: %s", encoder.directory, ", ".join(weights.left_out)
        )
    return weights.left_out


def _read_checkpoint(
    encoder: EncoderDirectory, model: BertEncoder | None = None
) -> CheckpointWeights:
    """Finds every variable of an encoder in its checkpoint, by names and shapes.

    The pooler of the next sentence head replaces an untrained one, if the checkpoint
    has it.

    Args:
      encoder: A Model Garden checkpoint's directory.
      model: The encoder that it describes; None builds a small one.

    Raises:
      EncoderError: The checkpoint cannot be read, or a tensor is missing, unexpected,
        or of another shape.
    """
    checkpoint = ObjectCheckpoint(
        encoder.path(encoder.checkpoint), encoder.weights_files
    )
    expected = variable_shapes(encoder.config)
    root = _find_encoder(checkpoint)
    if model is None:
        # The names of a model's objects do not depend on its sizes.
        sizes = {key: 1 for key in SIZE_KEYS if key != "num_hidden_layers"}
        small = dataclasses.replace(encoder, config={**encoder.config, **sizes})
        model = build_encoder(small, dropout=0.0)
    matched = _match(checkpoint, root, model)
    keys: dict[str, str] = {}
    for node, full_name, key in checkpoint.variables(checkpoint.reachable(root)):
        name = matched.get(node, full_name)
        is_other = node not in matched and name in expected
        if not name or name in keys or is_other:
            name = key.removesuffix(KEY_SUFFIX)
        keys[name] = key
    shapes = {name: checkpoint.shapes[key] for name, key in keys.items()}
    check_tensors(checkpoint.path, shapes, expected)
    # Pre-training with a next sentence head leaves the encoder's pooler untrained. The
    # trained one is the head's (`copy_pooler_dense_to_encoder` of the TF Hub exporter).
    # Its key escapes the dot of `next_sentence.pooler_dense`.
    pooler = {
        f"{POOLER}/{part}": f"next_sentence..pooler_dense/{part}{KEY_SUFFIX}"
        for part in ("kernel", "bias")
    }
    has_pooler = all(
        checkpoint.shapes.get(key) == shapes[name] for name, key in pooler.items()
    )
    if not has_pooler or checkpoint.read(keys[f"{POOLER}/bias"]).any():
        pooler = {}
    others = checkpoint.shapes.keys() - {*keys.values(), *pooler.values()}
    left_out = {key.removesuffix(KEY_SUFFIX) for key in others} - {"save_counter"}
    return CheckpointWeights(checkpoint, keys | pooler, sorted(left_out))


def _find_encoder(checkpoint: ObjectCheckpoint) -> int:
    # Attributes from the root to an encoder, to that of a pretrainer, and to an encoder
    # as converters and older releases save it. The first match counts.
    for layout in (("encoder",), ("model", "encoder_network"), ("model",)):
        node: int | None = ROOT
        for name in layout:
            node = None if node is None else checkpoint.children(node).get(name)
        if node is not None:
            return node
    names = ", ".join(checkpoint.children(ROOT)) or "nothing"
    raise unsupported(
        checkpoint.path,
        f"{names} in the checkpoint",
        advice="write it with tf.train.Checkpoint(encoder=...) or (model=...)",
    )


def _match(
    checkpoint: ObjectCheckpoint, root: int, model: BertEncoder
) -> dict[int, str]:
    """Walks a checkpoint and a model by the names that both have, as a restore does.

    Returns:
      Name of the variable that each node of the checkpoint belongs to.
    """
    view = tf.train.TrackableView(model)
    matched = {root: model}
    pending = collections.deque([root])
    while pending:
        node = pending.popleft()
        objects = view.children(matched[node])
        for name, child in checkpoint.children(node).items():
            if name in objects and child not in matched:
                matched[child] = objects[name]
                pending.append(child)
    names = {id(variable): variable_name(variable) for variable in model.variables}
    return {
        node: names[id(matched[node])] for node in matched if id(matched[node]) in names
    }
