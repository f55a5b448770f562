"""Encoders as TF Hub and Kaggle publish them: a SavedModel, with a preprocessor's."""

from __future__ import annotations

import os
import re
from typing import Any

import numpy as np
import tensorflow as tf
import tensorflow_text  # noqa: F401 (a preprocessor's SavedModel has its ops)
from official.nlp.modeling import networks
from tensorflow.core.protobuf import saved_model_pb2

from modules.encoder.accounting import Shape, check_tensors
from modules.encoder.directory import (
    APPROXIMATE_GELU_KEY,
    VOCAB_FILE,
    EncoderError,
    list_files,
)

GRAPH_FILE = "saved_model.pb"
_DATA_PREFIX = "variables.data-"
# Where its vocabulary may be, the encoder's own assets first.
_PREPROCESSORS = ("", "preprocess", "preprocessor")
_WORD_EMBEDDINGS = "word_embeddings/embeddings"
# Largest difference of the outputs, over rounding in another order of operations.
_TOLERANCE = 1e-3


def is_saved_model(directory: str) -> bool:
    """Tells whether a directory holds a SavedModel."""
    return tf.io.gfile.exists(os.path.join(directory, GRAPH_FILE))


def weights_files(directory: str) -> list[str]:
    """Returns the paths of the files with a SavedModel's variables."""
    variables = os.path.join(directory, "variables")
    names = list_files(variables)
    return [os.path.join(variables, n) for n in names if n.startswith(_DATA_PREFIX)]


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


def load(directory: str) -> tuple[Any, dict[str, Any]]:
    """Loads a SavedModel and derives its encoder's configuration.

    Args:
      directory: Local or remote.

    Returns:
      The loaded object, and the sizes and activation that `bert_config.json` has.

    Raises:
      EncoderError: It cannot be loaded, or is no encoder of the Model Garden's.
    """
    try:
        loaded = tf.saved_model.load(directory)
    except (OSError, ValueError, tf.errors.OpError) as error:
        raise EncoderError(
            f"SavedModel {directory} cannot be loaded: {str(error)[:200]}"
        ) from error
    shapes = {
        name: tuple(variable.shape)
        for name, variable in _variables(directory, loaded).items()
    }
    return loaded, {**_sizes(directory, shapes), **_activation(directory)}


def restore(model: networks.BertEncoder, loaded: Any, directory: str) -> list[str]:
    """Copies every variable of a SavedModel, and compares the outputs of both.

    Args:
      model: The encoder that the configuration of `load` describes.
      loaded: What `load` returned.
      directory: Where it was, for the message.

    Returns:
      Names of the variables that are no part of the encoder and were left out.

    Raises:
      EncoderError: A variable is missing, unexpected or of another shape, or the
        encoder computes something else than the SavedModel does.
    """
    found = _variables(directory, loaded)
    targets = {v.name.removesuffix(":0"): v for v in model.variables}
    check_tensors(
        directory,
        {name: tuple(variable.shape) for name, variable in found.items()},
        {name: tuple(variable.shape) for name, variable in targets.items()},
    )
    for name, variable in targets.items():
        variable.assign(found[name])
    difference = _largest_difference(model, loaded, directory)
    if difference > _TOLERANCE:
        raise EncoderError(
            f"SavedModel {directory} has the variables of a BERT, but its outputs "
            f"differ by {difference:.2g} from those of one: not its architecture"
        )
    if not hasattr(loaded, "mlm"):
        return []
    own = {id(variable) for variable in loaded.variables}
    rest = [v for v in loaded.mlm.variables if id(v) not in own]
    return sorted(v.name.removesuffix(":0") for v in rest)


def _variables(directory: str, loaded: Any) -> dict[str, tf.Variable]:
    """Returns the encoder's variables by their names in the Model Garden's."""
    setting = getattr(loaded, "do_lower_case", None)
    by_name = {
        variable.name.removesuffix(":0"): variable
        for variable in getattr(loaded, "variables", ())
        if variable is not setting
    }
    for name in by_name:
        if name.endswith(_WORD_EMBEDDINGS):
            prefix = name.removesuffix(_WORD_EMBEDDINGS)
            return {name.removeprefix(prefix): v for name, v in by_name.items()}
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


def _activation(directory: str) -> dict[str, Any]:
    """Tells the activation from the graph's ops: the configuration is not stored."""
    with tf.io.gfile.GFile(os.path.join(directory, GRAPH_FILE), "rb") as file:
        saved_model = saved_model_pb2.SavedModel.FromString(file.read())
    ops = {
        node.op
        for graph in saved_model.meta_graphs
        for function in graph.graph_def.library.function
        for node in function.node_def
    }
    if "Relu" in ops:
        return {"hidden_act": "relu"}
    return {"hidden_act": "gelu", APPROXIMATE_GELU_KEY: "Erf" not in ops}


def _largest_difference(
    model: networks.BertEncoder, loaded: Any, directory: str
) -> float:
    rows, tokens = 2, min(16, model.get_config()["max_sequence_length"])
    words = model.get_config()["vocab_size"]
    ids = np.random.default_rng(0).integers(words, size=(rows, tokens))
    mask = np.arange(tokens) < np.array([[tokens], [tokens // 2]])
    inputs = {
        "input_word_ids": tf.constant(ids, tf.int32),
        "input_mask": tf.constant(mask, tf.int32),
        "input_type_ids": tf.zeros([rows, tokens], tf.int32),
    }
    try:
        outputs = loaded(inputs, training=False)
    except (TypeError, ValueError) as error:  # no function, or not of these inputs
        raise EncoderError(
            f"SavedModel {directory} does not take {', '.join(inputs)} by name (on TF "
            f"Hub, version 3 or later does): {str(error)[:200]}"
        ) from error
    expected = outputs["sequence_output"].numpy()[mask]
    found = model(inputs, training=False)["sequence_output"].numpy()[mask]
    return float(np.abs(found - expected).max())
