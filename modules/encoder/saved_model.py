"""Encoders as TF Hub and Kaggle publish them: a SavedModel, with a preprocessor's.

A SavedModel's graph is a program, and loading it runs its initializers. So it is never
loaded: its variables are read as a checkpoint, and `saved_graph` reads the rest.
"""

from __future__ import annotations

import dataclasses
import os
import re
from typing import Any

import tensorflow as tf
from official.nlp.modeling import networks
from tensorflow.core.protobuf.trackable_object_graph_pb2 import TrackableObjectGraph

from modules.encoder import model_garden, saved_graph
from modules.encoder.accounting import Shape, check_tensors
from modules.encoder.directory import (
    LOWER_CASE_KEY,
    VOCAB_FILE,
    EncoderError,
    list_files,
)
from modules.encoder.saved_graph import GRAPH_FILE

_VARIABLES = "variables"
# Where its vocabulary may be, the encoder's own assets first.
_PREPROCESSORS = ("", "preprocess", "preprocessor")
_WORD_EMBEDDINGS = "word_embeddings/embeddings"
_LANGUAGE_MODEL = "mlm"


@dataclasses.dataclass(frozen=True)
class _Variables:
    """The variables of a SavedModel.

    Attributes:
      keys: Key in the checkpoint of each of the encoder's, by its name in the Model
        Garden.
      shapes: Shape of each of the encoder's, by its name.
      lower_case_key: Key of the variable `do_lower_case`, empty if there is none.
      left_out: Names of the variables of the masked language model alone.
    """

    keys: dict[str, str]
    shapes: dict[str, Shape]
    lower_case_key: str
    left_out: list[str]


def is_saved_model(directory: str) -> bool:
    """Tells whether a directory holds a SavedModel."""
    return tf.io.gfile.exists(os.path.join(directory, GRAPH_FILE))


def source_files(directory: str) -> list[str]:
    """Returns the paths of all files that are read of a SavedModel's encoder.

    Raises:
      EncoderError: It has no vocabulary, or several that may be meant.
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
      preprocessor: Its preprocessor's; None looks in the encoder's own assets, and for
        a preprocessor in its subdirectory `preprocess`.

    Returns:
      The path of a file with one token a line.

    Raises:
      EncoderError: There is none, or several that may be meant.
    """
    places = [os.path.join(directory, name) for name in _PREPROCESSORS]
    for place in [preprocessor] if preprocessor else places:
        assets = os.path.join(place, "assets")
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


def read_config(directory: str, vocabulary: str) -> dict[str, Any]:
    """Derives the configuration of a SavedModel's encoder.

    Args:
      directory: Local or remote.
      vocabulary: What `find_vocabulary` returned.

    Returns:
      The sizes and the activation that `bert_config.json` has, and `do_lower_case` if
      the encoder or the preprocessor has it.

    Raises:
      EncoderError: It cannot be read, or is no encoder of the Model Garden's.
    """
    variables = _read_variables(directory)
    config = {
        **_sizes(directory, variables.shapes),
        **saved_graph.describe(directory),
    }
    preprocessor = _find_preprocessor(directory, vocabulary)
    if variables.lower_case_key:
        reader = tf.train.load_checkpoint(_checkpoint(directory))
        config[LOWER_CASE_KEY] = bool(reader.get_tensor(variables.lower_case_key))
    elif preprocessor:
        config[LOWER_CASE_KEY] = saved_graph.find_lower_case(preprocessor)
    return config


def restore(model: networks.BertEncoder, directory: str) -> list[str]:
    """Copies every variable of a SavedModel.

    Args:
      model: The encoder that the configuration of `read_config` describes.
      directory: Local or remote.

    Returns:
      Names of the variables that are no part of the encoder and were left out.

    Raises:
      EncoderError: A variable is missing, unexpected or of another shape.
    """
    variables = _read_variables(directory)
    targets = {v.name.removesuffix(":0"): v for v in model.variables}
    shapes = {name: tuple(variable.shape) for name, variable in targets.items()}
    check_tensors(directory, variables.shapes, shapes)
    reader = tf.train.load_checkpoint(_checkpoint(directory))
    for name, variable in targets.items():
        variable.assign(reader.get_tensor(variables.keys[name]))
    return variables.left_out


def _find_preprocessor(directory: str, vocabulary: str) -> str:
    """Returns the other SavedModel in whose assets a vocabulary is; empty for none."""
    owner = os.path.dirname(os.path.dirname(vocabulary))
    is_other = owner != directory.rstrip("/") and is_saved_model(owner)
    return owner if is_other else ""


def _checkpoint(directory: str) -> str:
    return os.path.join(directory, _VARIABLES, _VARIABLES)


def _variables_files(directory: str) -> list[str]:
    variables = os.path.join(directory, _VARIABLES)
    names = [name for name in list_files(variables) if name.startswith(_VARIABLES)]
    return [os.path.join(variables, name) for name in names]


def _read_variables(directory: str) -> _Variables:
    """Reads the names, keys and shapes of a SavedModel's variables.

    Keras keeps a model's variables as a list of that name, in the checkpoint's graph of
    objects as well.
    """
    saved_graph.check_generation(directory)
    files = [path for path in _variables_files(directory) if ".data-" in path]
    graph, shapes = model_garden.read_checkpoint(_checkpoint(directory), files)
    root = model_garden.children(graph, 0)
    setting = root.get(LOWER_CASE_KEY)
    encoder = _variable_nodes(graph, 0) - {setting}
    rest = _variable_nodes(graph, root.get(_LANGUAGE_MODEL)) - encoder
    keys = _without_prefix(directory, _keys(graph, encoder))
    settings = _keys(graph, set() if setting is None else {setting})
    return _Variables(
        keys=keys,
        shapes={name: shapes[key] for name, key in keys.items()},
        lower_case_key=next(iter(settings.values()), ""),
        left_out=sorted(_keys(graph, rest)),
    )


def _variable_nodes(graph: TrackableObjectGraph, model: int | None) -> set[int]:
    """Returns the nodes of a Keras model's variables."""
    if model is None:
        return set()
    variables = model_garden.children(graph, model).get(_VARIABLES)
    if variables is None:
        return set()
    return set(model_garden.children(graph, variables).values())


def _keys(graph: TrackableObjectGraph, nodes: set[int]) -> dict[str, str]:
    """Returns the checkpoint's key of each variable by its name."""
    attributes = [a for node in nodes for a in graph.nodes[node].attributes]
    return {a.full_name: a.checkpoint_key for a in attributes}


def _without_prefix(directory: str, keys: dict[str, str]) -> dict[str, str]:
    """Returns the keys by the variables' names in the Model Garden's."""
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
    wanted = (
        _WORD_EMBEDDINGS,
        "position_embedding/embeddings",
        "type_embeddings/embeddings",
        "transformer/layer_0/self_attention/query/kernel",
        "transformer/layer_0/intermediate/kernel",
    )
    missing = [name for name in wanted if name not in shapes]
    if missing:
        raise EncoderError(
            f"SavedModel {directory} has no variable {', '.join(missing)}: not a BERT "
            "encoder of the Model Garden's (on TF Hub, version 3 or later)"
        )
    words, positions, types, query, inner = (shapes[name] for name in wanted)
    names = "\n".join(shapes)
    layers = set(re.findall(r"^transformer/layer_\d+/", names, re.MULTILINE))
    return {
        "vocab_size": words[0],
        "hidden_size": words[1],
        "num_hidden_layers": len(layers),
        "num_attention_heads": query[1],
        "intermediate_size": inner[1],
        "max_position_embeddings": positions[0],
        "type_vocab_size": types[0],
    }
