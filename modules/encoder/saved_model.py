"""Encoders as TF Hub and Kaggle publish them: a SavedModel, and one to preprocess.

A SavedModel is never loaded, because its initializers may run anything: its variables
are read as a checkpoint, and `saved_graph` reads the rest.
"""

from __future__ import annotations

import dataclasses
import os
import re
from typing import Any

import tensorflow as tf

from contracts.tokenization import LOWER_CASE_KEY
from contracts.versions.exported_model import ASSETS, GRAPH_FILE, VARIABLES
from modules.encoder.model import (
    POSITION_EMBEDDING,
    TYPE_EMBEDDINGS,
    WORD_EMBEDDINGS,
    Shape,
    check_tensors,
    variable_shapes,
)
from modules.encoder.restoring import (
    ROOT,
    CheckpointWeights,
    ObjectCheckpoint,
)
from modules.encoder.saved_graph import READABLE_HANDLES, SavedGraph
from modules.encoder_files import (
    VOCAB_FILE,
    list_files,
    missing,
    unsupported,
)

_WORD_EMBEDDINGS = f"{WORD_EMBEDDINGS}/embeddings"


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
    """Returns the paths of all files that `read_encoder` reads.

    Raises:
      EncoderError: The vocabulary is missing, or there are several candidates.
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
      directory: Directory of the encoder.
      preprocessor: Directory of its preprocessor. None searches the encoder's assets,
        and those of a preprocessor in its subdirectory `preprocess` or `preprocessor`.

    Returns:
      The path of a file with one token a line.

    Raises:
      EncoderError: The vocabulary is missing, or there are several candidates.
    """
    names = ("", "preprocess", "preprocessor")
    candidates = [os.path.join(directory, name) for name in names]
    for candidate in [preprocessor] if preprocessor else candidates:
        assets = os.path.join(candidate, ASSETS)
        texts = [name for name in list_files(assets) if name.endswith(".txt")]
        if VOCAB_FILE in texts:
            texts = [VOCAB_FILE]
        if len(texts) > 1:
            raise missing(
                assets,
                f"several texts: {', '.join(texts)}",
                f"rename the vocabulary to {VOCAB_FILE}",
            )
        if texts:
            return os.path.join(assets, texts[0])
    raise missing(
        preprocessor or directory,
        f"no vocabulary ({ASSETS}/{VOCAB_FILE})",
        "name the encoder's preprocessor: run `import-encoder` with `preprocessor`, "
        "and use the directory that it writes",
    )


def read_encoder(directory: str, preprocessor: str | None = None) -> PublishedEncoder:
    """Reads a SavedModel's encoder, but not the values of its variables.

    Raises:
      EncoderError: The SavedModel cannot be read, it is not a Model Garden encoder, or
        a variable is missing, unexpected or of another shape.
    """
    vocabulary = find_vocabulary(directory, preprocessor)
    graph = SavedGraph(directory)
    data = [path for path in _variables_files(directory) if ".data-" in path]
    path = os.path.join(directory, VARIABLES, VARIABLES)
    checkpoint = ObjectCheckpoint(path, data)
    root = checkpoint.children(ROOT)
    lower_case = root.get(LOWER_CASE_KEY)
    encoder = _variable_nodes(checkpoint, ROOT) - {lower_case}
    # The exporter adds the masked language model of the pre-training as `mlm`.
    rest = _variable_nodes(checkpoint, root.get("mlm")) - encoder
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
    """Returns the preprocessor with a vocabulary; empty if the encoder has it."""
    owner = os.path.dirname(os.path.dirname(vocabulary))
    is_other = owner != directory.rstrip("/") and is_saved_model(owner)
    return owner if is_other else ""


def _variables_files(directory: str) -> list[str]:
    variables = os.path.join(directory, VARIABLES)
    names = [name for name in list_files(variables) if name.startswith(VARIABLES)]
    return [os.path.join(variables, name) for name in names]


def _variable_nodes(checkpoint: ObjectCheckpoint, model: int | None) -> set[int]:
    """Returns the nodes of a Keras model's variables, from the model's list of them."""
    children = {} if model is None else checkpoint.children(model)
    # Keras tracks the list as the attribute `variables` of the model.
    if "variables" not in children:
        return set()
    return set(checkpoint.children(children["variables"]).values())


def _keys(checkpoint: ObjectCheckpoint, nodes: set[int]) -> dict[str, str]:
    """Returns the key of each variable by its name."""
    return {name: key for _, name, key in checkpoint.variables(nodes)}


def _without_prefix(directory: str, keys: dict[str, str]) -> dict[str, str]:
    """Returns the keys by the variables' names in the Model Garden."""
    # Until mid-2020 the attention's output was a layer next to the attention.
    old = [name for name in keys if "/self_attention_output/" in name]
    if old:
        raise unsupported(
            directory,
            f"the variable {old[0]} of an old layout, as in versions 1 and 2 of TF "
            "Hub's tensorflow/bert_*",
            advice="take version 4 of the same handle, or the encoder's Model Garden "
            "checkpoint",
        )
    for name in keys:
        if name.endswith(_WORD_EMBEDDINGS):
            prefix = name.removesuffix(_WORD_EMBEDDINGS)
            return {name.removeprefix(prefix): key for name, key in keys.items()}
    raise missing(
        directory,
        f"no variable {_WORD_EMBEDDINGS}, which an encoder of the Model Garden has",
        "name the encoder; `preprocessor` takes a preprocessor",
    )


def _sizes(directory: str, shapes: dict[str, Shape]) -> dict[str, int]:
    """Derives a configuration's sizes from the shapes of the variables."""
    names = (
        _WORD_EMBEDDINGS,
        f"{POSITION_EMBEDDING}/embeddings",
        f"{TYPE_EMBEDDINGS}/embeddings",
        "transformer/layer_0/self_attention/query/kernel",
        "transformer/layer_0/intermediate/kernel",
    )
    absent = [name for name in names if name not in shapes]
    if absent:
        raise missing(
            directory,
            f"no variable {', '.join(absent)}",
            f"use an encoder of the Model Garden, such as TF Hub's {READABLE_HANDLES}",
        )
    words, positions, types, query, inner = (shapes[name] for name in names)
    matches = (re.match(r"transformer/layer_\d+/", name) for name in shapes)
    layers = {match[0] for match in matches if match}
    return {
        "vocab_size": words[0],
        "hidden_size": words[1],
        "num_hidden_layers": len(layers),
        "num_attention_heads": query[1],
        "intermediate_size": inner[1],
        "max_position_embeddings": positions[0],
        "type_vocab_size": types[0],
    }
