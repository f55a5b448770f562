"""Weights as the Model Garden stores them: a TensorFlow checkpoint of objects."""

from __future__ import annotations

import collections
import dataclasses

import tensorflow as tf

from modules.encoder.directory import EncoderDirectory
from modules.encoder.model import BertEncoder, build_encoder
from modules.encoder.object_checkpoint import (
    KEY_SUFFIX,
    ROOT,
    CheckpointWeights,
    ObjectCheckpoint,
)
from modules.encoder.tensors import (
    POOLER,
    check_tensors,
    variable_name,
    variable_shapes,
)
from modules.encoder_files import SIZE_KEYS, unsupported


def read_weights(
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
