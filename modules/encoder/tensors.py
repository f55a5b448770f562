"""The tensors of BERT's encoder: names, shapes, and the check of stored ones."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import tensorflow as tf

from modules.encoder.directory import EncoderError
from modules.encoder_files import TYPES_KEY

Shape = tuple[int, ...]

# The encoder's layers outside of its blocks, with the Model Garden's names. The name of
# a variable begins with that of its layer.
WORD_EMBEDDINGS = "word_embeddings"
POSITION_EMBEDDING = "position_embedding"
TYPE_EMBEDDINGS = "type_embeddings"
EMBEDDING_NORM = "embeddings/layer_norm"
POOLER = "pooler_transform"


def variable_name(variable: tf.Variable) -> str:
    """Returns a variable's name without the suffix of its output."""
    return variable.name.removesuffix(":0")


def variable_shapes(config: Mapping[str, Any]) -> dict[str, Shape]:
    """Returns the shape of every variable of an encoder by its name."""
    hidden, inner = (config["hidden_size"],), (config["intermediate_size"],)
    heads = config["num_attention_heads"]
    by_head = (heads, config["hidden_size"] // heads)
    shapes: dict[str, Shape] = {
        f"{layer}/embeddings": (config[key], *hidden)
        for layer, key in (
            (WORD_EMBEDDINGS, "vocab_size"),
            (POSITION_EMBEDDING, "max_position_embeddings"),
            (TYPE_EMBEDDINGS, TYPES_KEY),
        )
    }
    dense: dict[str, tuple[Shape, Shape]] = {POOLER: (hidden, hidden)}
    norms = [EMBEDDING_NORM]
    for index in range(config["num_hidden_layers"]):
        layer = f"transformer/layer_{index}"
        for name in ("query", "key", "value"):
            dense[f"{layer}/self_attention/{name}"] = (hidden, by_head)
        dense[f"{layer}/self_attention/attention_output"] = (by_head, hidden)
        dense[f"{layer}/intermediate"] = (hidden, inner)
        dense[f"{layer}/output"] = (inner, hidden)
        norms += [f"{layer}/self_attention_layer_norm", f"{layer}/output_layer_norm"]
    for name, (inputs, outputs) in dense.items():
        shapes |= {f"{name}/kernel": inputs + outputs, f"{name}/bias": outputs}
    for name in norms:
        shapes |= {f"{name}/gamma": hidden, f"{name}/beta": hidden}
    return shapes


def check_tensors(
    path: str, stored: Mapping[str, Shape], expected: Mapping[str, Shape]
) -> None:
    """Compares stored tensors with the encoder's.

    Args:
      path: Path of the stored tensors, for the message.
      stored: Shape of each stored tensor by name.
      expected: Shape of each tensor of the encoder by name.

    Raises:
      EncoderError: They differ. The message names every tensor that is missing,
        unexpected or of another shape.
    """
    missing = sorted(expected.keys() - stored.keys())
    unexpected = sorted(stored.keys() - expected.keys())
    problems = [f"missing {', '.join(missing)}"] if missing else []
    if unexpected:
        problems.append(f"unexpected {', '.join(unexpected)}")
    problems += [
        f"{name} has shape {stored[name]} instead of {expected[name]}"
        for name in sorted(stored.keys() & expected.keys())
        if stored[name] != expected[name]
    ]
    if problems:
        raise EncoderError(
            got=f"{path}: {'; '.join(problems)}", name="E-encoder-file-damaged"
        )
