"""Weights as the Model Garden stores them: a TensorFlow checkpoint of objects."""

from __future__ import annotations

import collections
import dataclasses
import math
from collections.abc import Iterable

import tensorflow as tf
from absl import logging
from official.nlp.modeling import networks
from tensorflow.core.protobuf.trackable_object_graph_pb2 import TrackableObjectGraph

from modules.encoder.accounting import Shape, check_tensors
from modules.encoder.directory import EncoderDirectory, EncoderError
from modules.encoder.model import build_encoder

_OBJECT_GRAPH = "_CHECKPOINTABLE_OBJECT_GRAPH"
_KEY_SUFFIX = "/.ATTRIBUTES/VARIABLE_VALUE"
_SAVE_COUNTER = "save_counter"
# Under which names of the root the encoder may be, the first that is there: alone, in
# a pretrainer, or alone as converters and older checkpoints have it.
_LAYOUTS = (("encoder",), ("model", "encoder_network"), ("model",))
# Pre-training with a head of its own leaves the encoder's pooler untrained, and has
# the trained one here (`copy_pooler_dense_to_encoder` of the TF Hub exporter).
_HEAD_POOLER = "next_sentence.pooler_dense"
_HEAD_POOLER_KEYS = f"{_HEAD_POOLER.replace('.', '..')}/"  # as keys escape it
# Each another, and so is 15 // 3, so that a shape tells which sizes it is made of.
_SKELETON_SIZES = {
    "vocab_size": 11,
    "hidden_size": 15,
    "num_attention_heads": 3,
    "intermediate_size": 17,
    "max_position_embeddings": 19,
    "type_vocab_size": 23,
}


def check(
    encoder: EncoderDirectory, model: networks.BertEncoder | None = None
) -> list[str]:
    """Compares a checkpoint's tensors with the encoder's variables.

    Args:
      encoder: A Model Garden checkpoint's directory.
      model: The encoder that it describes, whose structure is read; None builds a
        small one of the same structure, for a large one takes seconds and memory.

    Returns:
      Names of the tensors that are no part of the encoder and are left out.

    Raises:
      EncoderError: The checkpoint cannot be read, or a tensor is missing, unexpected,
        or of another shape.
    """
    graph, shapes = read_checkpoint(encoder.checkpoint_path, encoder.weights_files)
    _, root = _find_encoder(encoder.checkpoint_path, graph)
    sizes: dict[int, int] = {}
    if model is None:
        model, sizes = _skeleton(encoder)
    expected = {
        variable.name.removesuffix(":0"): tuple(sizes.get(n, n) for n in variable.shape)
        for variable in model.variables
    }
    names = _match(graph, root, model)
    found: dict[str, Shape] = {}
    inside = set()
    for node in _reachable(graph, root):
        for attribute in graph.nodes[node].attributes:
            key = attribute.checkpoint_key
            name = names.get(node, attribute.full_name)
            if not name or name in found or (node not in names and name in expected):
                name = key.removesuffix(_KEY_SUFFIX)
            found[name] = shapes[key]
            inside.add(key)
    check_tensors(encoder.checkpoint_path, found, expected)
    others = {key.removesuffix(_KEY_SUFFIX) for key in shapes.keys() - inside}
    return sorted(others - {_SAVE_COUNTER})


def restore(model: networks.BertEncoder, encoder: EncoderDirectory) -> list[str]:
    """Restores every variable of an encoder from its checkpoint.

    Where the pooler was left untrained, it gets the one of the next sentence head, if
    the checkpoint has that.

    Args:
      model: The encoder that the directory describes.
      encoder: A Model Garden checkpoint's directory.

    Returns:
      Names of the tensors that are no part of the encoder and were left out.

    Raises:
      EncoderError: The checkpoint cannot be read, or a tensor is missing, unexpected,
        or of another shape.
    """
    left_out = check(encoder, model)
    graph, shapes = read_checkpoint(encoder.checkpoint_path, encoder.weights_files)
    layout, _ = _find_encoder(encoder.checkpoint_path, graph)
    _restore_at(encoder, layout, model)
    kernel, bias = model.pooler_layer.get_weights()
    stored = shapes.get(f"{_HEAD_POOLER_KEYS}kernel{_KEY_SUFFIX}")
    if not bias.any() and stored == kernel.shape:
        _restore_at(encoder, (_HEAD_POOLER,), model.pooler_layer)
        left_out = [name for name in left_out if not name.startswith(_HEAD_POOLER_KEYS)]
    if left_out:
        logging.info("Left out of %s: %s", encoder.directory, ", ".join(left_out))
    return left_out


def _skeleton(
    encoder: EncoderDirectory,
) -> tuple[networks.BertEncoder, dict[int, int]]:
    """Builds an encoder with the layers of another, and sizes that stand for its."""
    hidden, heads = (
        encoder.config[key] for key in ("hidden_size", "num_attention_heads")
    )
    config = {**encoder.config, **_SKELETON_SIZES}
    sizes = {size: encoder.config[key] for key, size in _SKELETON_SIZES.items()}
    per_head = config["hidden_size"] // config["num_attention_heads"]
    sizes[per_head] = hidden // heads
    small = dataclasses.replace(encoder, config=config)
    return build_encoder(small, dropout=0.0), sizes


def _restore_at(
    encoder: EncoderDirectory, layout: tuple[str, ...], target: tf.Module
) -> None:
    for name in reversed(layout):
        target = tf.train.Checkpoint(**{name: target})
    status = target.read(encoder.checkpoint_path)
    # What the checkpoint has besides was accounted for before.
    status.assert_existing_objects_matched().expect_partial()


def read_checkpoint(
    path: str, files: Iterable[str]
) -> tuple[TrackableObjectGraph, dict[str, Shape]]:
    """Reads what a TensorFlow 2 checkpoint holds.

    Args:
      path: The checkpoint, without the files' suffixes.
      files: Its files, which must hold all that the index names.

    Returns:
      The graph of its objects, and each tensor's shape by key.

    Raises:
      EncoderError: It cannot be read, or its files are too short.
    """
    try:
        reader = tf.train.load_checkpoint(path)
        shapes = reader.get_variable_to_shape_map()
        if _OBJECT_GRAPH not in shapes:
            raise EncoderError(
                f"{path} is a TensorFlow 1 checkpoint; convert it first, with "
                "official.nlp.tools.tf2_bert_encoder_checkpoint_converter"
            )
        graph = TrackableObjectGraph.FromString(reader.get_tensor(_OBJECT_GRAPH))
    except (ValueError, IndexError, tf.errors.OpError) as error:
        raise EncoderError(f"{path} is no readable checkpoint: {error}") from error
    del shapes[_OBJECT_GRAPH]
    dtypes = reader.get_variable_to_dtype_map()
    needed = sum(math.prod(shapes[key]) * dtypes[key].size for key in shapes)
    size = sum(tf.io.gfile.stat(file).length for file in files)
    if size < needed:
        raise EncoderError(f"{path} has {size} bytes of data, its index {needed}")
    return graph, {key: tuple(shape) for key, shape in shapes.items()}


def _find_encoder(
    path: str, graph: TrackableObjectGraph
) -> tuple[tuple[str, ...], int]:
    """Returns the names that lead from a checkpoint's root to the encoder, and it."""
    for layout in _LAYOUTS:
        node: int | None = 0
        for name in layout:
            node = None if node is None else children(graph, node).get(name)
        if node is not None:
            return layout, node
    raise EncoderError(
        f"{path} holds {', '.join(children(graph, 0)) or 'nothing'}; an encoder's "
        "checkpoint is written with tf.train.Checkpoint(encoder=...) or (model=...)"
    )


def children(graph: TrackableObjectGraph, node: int) -> dict[str, int]:
    """Returns the nodes that hang from a node of a checkpoint's objects, by name."""
    # Attributes before `layer-0` and the like, which count what comes before them and
    # would pair the pooler with a layer where one of both has a layer more.
    nodes = {child.local_name: child.node_id for child in graph.nodes[node].children}
    return dict(sorted(nodes.items(), key=lambda item: item[0].startswith("layer")))


def _reachable(graph: TrackableObjectGraph, root: int) -> set[int]:
    found, pending = set(), [root]
    while pending:
        node = pending.pop()
        if node not in found:
            found.add(node)
            pending += children(graph, node).values()
    return found


def _match(
    graph: TrackableObjectGraph, root: int, model: networks.BertEncoder
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
        for name, child in children(graph, node).items():
            if name in objects and child not in matched:
                matched[child] = objects[name]
                pending.append(child)
    names = {id(v): v.name.removesuffix(":0") for v in model.variables}
    return {
        node: names[id(matched[node])] for node in matched if id(matched[node]) in names
    }
