"""Weights as the Model Garden stores them: a TensorFlow checkpoint of objects."""

from __future__ import annotations

import collections
import dataclasses

import tensorflow as tf

from modules.encoder.directory import SIZE_KEYS, EncoderDirectory, EncoderError
from modules.encoder.model import BertEncoder, build_encoder
from modules.encoder.object_checkpoint import (
    KEY_SUFFIX,
    ROOT,
    CheckpointWeights,
    ObjectCheckpoint,
)
from modules.encoder.tensors import check_tensors, variable_name, variable_shapes

_SAVE_COUNTER = "save_counter"
# Attributes that lead from the root to the encoder, the first match wins: alone, in a
# pretrainer, or alone as converters and older checkpoints have it.
_LAYOUTS = (("encoder",), ("model", "encoder_network"), ("model",))
# Pre-training with a next sentence head leaves the encoder's pooler untrained; the
# trained one is here (`copy_pooler_dense_to_encoder` of the TF Hub exporter).
_HEAD_POOLER = "next_sentence..pooler_dense"  # as keys escape the dot
_POOLER = "pooler_transform"
# The names of a model's objects do not depend on its sizes.
_SMALL = {key: 1 for key in SIZE_KEYS if key != "num_hidden_layers"}


def read_weights(
    encoder: EncoderDirectory, model: BertEncoder | None = None
) -> CheckpointWeights:
    """Finds every variable of an encoder in its checkpoint, by names and shapes.

    A pooler that was left untrained is replaced by that of the next sentence head, if
    the checkpoint has one.

    Args:
      encoder: A Model Garden checkpoint's directory.
      model: The encoder that it describes; None builds a small one.

    Raises:
      EncoderError: The checkpoint cannot be read, or a tensor is missing, unexpected,
        or of another shape.
    """
    if model is None:
        small = dataclasses.replace(encoder, config={**encoder.config, **_SMALL})
        model = build_encoder(small, dropout=0.0)
    checkpoint = ObjectCheckpoint(encoder.checkpoint_path, encoder.weights_files)
    expected = variable_shapes(encoder.config)
    root = _find_encoder(checkpoint)
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
    pooler = _head_pooler(checkpoint, keys)
    others = checkpoint.shapes.keys() - {*keys.values(), *pooler.values()}
    left_out = {key.removesuffix(KEY_SUFFIX) for key in others} - {_SAVE_COUNTER}
    return CheckpointWeights(checkpoint, keys | pooler, sorted(left_out))


def _head_pooler(checkpoint: ObjectCheckpoint, keys: dict[str, str]) -> dict[str, str]:
    """Returns the keys of the next sentence head's pooler, if it is the trained one."""
    pooler = {
        f"{_POOLER}/{part}": f"{_HEAD_POOLER}/{part}{KEY_SUFFIX}"
        for part in ("kernel", "bias")
    }
    shapes = checkpoint.shapes
    fits = all(shapes.get(key) == shapes[keys[name]] for name, key in pooler.items())
    is_trained = checkpoint.read(keys[f"{_POOLER}/bias"]).any()
    return pooler if fits and not is_trained else {}


def _find_encoder(checkpoint: ObjectCheckpoint) -> int:
    for layout in _LAYOUTS:
        node: int | None = ROOT
        for name in layout:
            node = None if node is None else checkpoint.children(node).get(name)
        if node is not None:
            return node
    names = ", ".join(checkpoint.children(ROOT)) or "nothing"
    raise EncoderError(
        f"{checkpoint.path} holds {names}; an encoder's checkpoint is written with "
        "tf.train.Checkpoint(encoder=...) or (model=...)"
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
