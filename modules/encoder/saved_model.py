"""Encoders as TF Hub and Kaggle publish them: a SavedModel and a preprocessor's.

Loading a SavedModel runs its initializers, which may do anything. So it is never
loaded: its variables are read as a checkpoint, and `saved_graph` reads the rest.
"""

from __future__ import annotations

import dataclasses
import os
import re
from typing import Any

import tensorflow as tf

from modules.encoder.directory import (
    LOWER_CASE_KEY,
    VOCAB_FILE,
    EncoderError,
    list_files,
)
from modules.encoder.object_checkpoint import (
    ROOT,
    CheckpointWeights,
    ObjectCheckpoint,
)
from modules.encoder.saved_graph import GRAPH_FILE, READABLE_HANDLES, SavedGraph
from modules.encoder.tensors import Shape, check_tensors, variable_shapes

_VARIABLES = "variables"
# Directories whose assets may hold the vocabulary, the encoder's own first.
_PREPROCESSORS = ("", "preprocess", "preprocessor")
_WORD_EMBEDDINGS = "word_embeddings/embeddings"
_LANGUAGE_MODEL = "mlm"
_LAYER = re.compile(r"transformer/layer_\d+/")
# The attention's last layer, until mid-2020. Now it is part of the attention.
_OLD_ATTENTION_OUTPUT = "/self_attention_output/"


@dataclasses.dataclass(frozen=True)
class PublishedEncoder:
    """An encoder in a SavedModel.

    Attributes:
      config: The sizes and the activation that `bert_config.json` has, and
        `do_lower_case` if the encoder or the preprocessor has it.
      vocabulary: Path of the vocabulary, one token a line.
      weights: The variables.
    """

    config: dict[str, Any]
    vocabulary: str
    weights: CheckpointWeights


def is_saved_model(directory: str) -> bool:
    """Returns whether a directory holds a SavedModel."""
    return tf.io.gfile.exists(os.path.join(directory, GRAPH_FILE))


def source_files(directory: str) -> list[str]:
    """Returns the paths of all files that are read of a SavedModel's encoder.

    Raises:
      EncoderError: It has no vocabulary, or several candidates.
    """
    vocabulary = find_vocabulary(directory)
    files = [os.path.join(directory, GRAPH_FILE), vocabulary]
    preprocessor = _find_preprocessor(directory, vocabulary)
    if preprocessor:
        files.append(os.path.join(preprocessor, GRAPH_FILE))
    return [*files, *_variables_files(directory)]


def find_vocabulary(directory: str, preprocessor: str | None = None) -> str:
    """Finds the vocabulary of a SavedModel's encoder.

    Args:
      directory: The encoder's.
      preprocessor: Its preprocessor's; None searches the encoder's own assets, and a
        preprocessor in its subdirectory `preprocess` or `preprocessor`.

    Returns:
      The path of a file with one token a line.

    Raises:
      EncoderError: There is none, or several candidates.
    """
    candidates = [os.path.join(directory, name) for name in _PREPROCESSORS]
    for candidate in [preprocessor] if preprocessor else candidates:
        assets = os.path.join(candidate, "assets")
        texts = [name for name in list_files(assets) if name.endswith(".txt")]
        if VOCAB_FILE in texts:
            texts = [VOCAB_FILE]
        if len(texts) > 1:
            raise EncoderError(f"{assets} has several texts: {', '.join(texts)}")
        if texts:
            return os.path.join(assets, texts[0])
    raise EncoderError(
        f"{preprocessor or directory} has no vocabulary (assets/vocab.txt); name the "
        "encoder's preprocessor: python -m pipeline import-encoder SOURCE DEST "
        "--preprocessor HANDLE_OR_DIR, and use DEST"
    )


def read_encoder(directory: str, preprocessor: str | None = None) -> PublishedEncoder:
    """Reads a SavedModel's encoder, all but the values of its variables.

    Args:
      directory: The SavedModel, local or remote.
      preprocessor: As for `find_vocabulary`.

    Raises:
      EncoderError: It cannot be read, is not a Model Garden encoder, or a
        variable is missing, unexpected or of another shape.
    """
    vocabulary = find_vocabulary(directory, preprocessor)
    graph = SavedGraph(directory)
    data = [path for path in _variables_files(directory) if ".data-" in path]
    path = os.path.join(directory, _VARIABLES, _VARIABLES)
    checkpoint = ObjectCheckpoint(path, data)
    root = checkpoint.children(ROOT)
    lower_case = root.get(LOWER_CASE_KEY)
    encoder = _variable_nodes(checkpoint, ROOT) - {lower_case}
    rest = _variable_nodes(checkpoint, root.get(_LANGUAGE_MODEL)) - encoder
    keys = _without_prefix(directory, _keys(checkpoint, encoder))
    shapes = {name: checkpoint.shapes[key] for name, key in keys.items()}
    config = {**_sizes(directory, shapes), **graph.describe()}
    check_tensors(directory, shapes, variable_shapes(config))
    other = _find_preprocessor(directory, vocabulary)
    if lower_case is not None:
        (key,) = _keys(checkpoint, {lower_case}).values()
        config[LOWER_CASE_KEY] = bool(checkpoint.read(key))
    elif other:
        config[LOWER_CASE_KEY] = SavedGraph(other).find_lower_case()
    weights = CheckpointWeights(checkpoint, keys, sorted(_keys(checkpoint, rest)))
    return PublishedEncoder(config, vocabulary, weights)


def _find_preprocessor(directory: str, vocabulary: str) -> str:
    """Returns the other SavedModel whose assets hold a vocabulary; empty for none."""
    owner = os.path.dirname(os.path.dirname(vocabulary))
    is_other = owner != directory.rstrip("/") and is_saved_model(owner)
    return owner if is_other else ""


def _variables_files(directory: str) -> list[str]:
    variables = os.path.join(directory, _VARIABLES)
    names = [name for name in list_files(variables) if name.startswith(_VARIABLES)]
    return [os.path.join(variables, name) for name in names]


def _variable_nodes(checkpoint: ObjectCheckpoint, model: int | None) -> set[int]:
    """Returns the nodes of the variables of a Keras model, which lists them."""
    children = {} if model is None else checkpoint.children(model)
    if _VARIABLES not in children:
        return set()
    return set(checkpoint.children(children[_VARIABLES]).values())


def _keys(checkpoint: ObjectCheckpoint, nodes: set[int]) -> dict[str, str]:
    """Returns the key of each variable by its name."""
    return {name: key for _, name, key in checkpoint.variables(nodes)}


def _without_prefix(directory: str, keys: dict[str, str]) -> dict[str, str]:
    """Returns the keys by the variables' names in the Model Garden's."""
    old = [name for name in keys if _OLD_ATTENTION_OUTPUT in name]
    if old:
        raise EncoderError(
            f"SavedModel {directory} has the variable {old[0]}: an old layout, as in "
            "versions 1 and 2 of TF Hub's tensorflow/bert_*. Take version 4 of the "
            "same handle, or the encoder's Model Garden checkpoint"
        )
    for name in keys:
        if name.endswith(_WORD_EMBEDDINGS):
            prefix = name.removesuffix(_WORD_EMBEDDINGS)
            return {name.removeprefix(prefix): key for name, key in keys.items()}
    raise EncoderError(
        f"SavedModel {directory} has no variable {_WORD_EMBEDDINGS}: not a BERT "
        "encoder of the Model Garden's; a preprocessor is given with --preprocessor"
    )


def _sizes(directory: str, shapes: dict[str, Shape]) -> dict[str, int]:
    """Derives a configuration's sizes from the shapes of the variables."""
    names = (
        _WORD_EMBEDDINGS,
        "position_embedding/embeddings",
        "type_embeddings/embeddings",
        "transformer/layer_0/self_attention/query/kernel",
        "transformer/layer_0/intermediate/kernel",
    )
    missing = [name for name in names if name not in shapes]
    if missing:
        raise EncoderError(
            f"SavedModel {directory} has no variable {', '.join(missing)}: not a BERT "
            f"encoder of the Model Garden's, as TF Hub's {READABLE_HANDLES}"
        )
    words, positions, types, query, inner = (shapes[name] for name in names)
    layers = {match[0] for name in shapes if (match := _LAYER.match(name))}
    return {
        "vocab_size": words[0],
        "hidden_size": words[1],
        "num_hidden_layers": len(layers),
        "num_attention_heads": query[1],
        "intermediate_size": inner[1],
        "max_position_embeddings": positions[0],
        "type_vocab_size": types[0],
    }
