"""Reads the inputs and outputs of a SavedModel without loading it."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator, Mapping
from typing import Any

from contracts import row_values
from contracts.storage import files
from contracts.versions import served_versions
from contracts.versions.exported_model import (
    LABELS,
    SCORE,
    SERVE_EXAMPLES,
    SERVING_DEFAULT,
)
from ingest.examples import tf_examples
from ingest.rows.row_errors import RowError
from prediction.model_directory import not_pushed, read_description

_KINDS = {"string": "bytes_list", "int64": "int64_list", "float32": "float_list"}


@dataclasses.dataclass(frozen=True)
class Feature:
    """A feature that `serve_examples` parses.

    Attributes:
      dtype: `string`, `int64` or `float32`.
      size: The number of its values; None allows any number above 0.
    """

    dtype: str
    size: int | None = None


@dataclasses.dataclass(frozen=True)
class ModelDescription:
    """The inputs and outputs of a SavedModel.

    Attributes:
      directory: The SavedModel.
      columns: Its text columns, in alphabetical order.
      features: The features that `serve_examples` parses, by name; empty without that
        signature.
      is_score: Whether it predicts a score instead of a class.
      labels: The names of several labels; None for any other.
    """

    directory: str
    columns: tuple[str, ...]
    features: Mapping[str, Feature]
    is_score: bool
    labels: tuple[str, ...] | None = None


def describe_model(directory: str) -> ModelDescription:
    """Reads the signatures of a SavedModel, local or remote.

    Raises:
      UsageError: It has no signature that takes text, or the names of its labels are
        missing.
    """
    from tensorflow.core.protobuf import saved_model_pb2  # imports TensorFlow

    with files.open_binary(f"{directory}/{served_versions.GRAPH_FILE}") as file:
        graph = saved_model_pb2.SavedModel.FromString(file.read()).meta_graphs[0]
    if SERVING_DEFAULT not in graph.signature_def:
        raise not_pushed(directory, f"signature {SERVING_DEFAULT}")
    signature = graph.signature_def[SERVING_DEFAULT]
    features: dict[str, Feature] = {}
    if SERVE_EXAMPLES in graph.signature_def:
        for function in graph.graph_def.library.function:
            features.update(_parsed_features(function))
    return ModelDescription(
        directory,
        columns=tuple(sorted(signature.inputs)),
        features=features,
        is_score=SCORE in signature.outputs,
        labels=tuple(read_description(directory)["classes"])
        if LABELS in signature.outputs
        else None,
    )


def check_features(serialized: bytes, expected: Mapping[str, Feature]) -> None:
    """Refuses an Example that the model cannot parse, or would read as empty.

    Raises:
      RowError: The bytes are not an Example, or a feature is missing, has a different
        type or size, is not UTF-8, or has no visible character.
    """
    features = tf_examples.parse(serialized).features.feature
    for name, feature in expected.items():
        if name not in features:
            raise RowError(
                f"no feature {name}; the model takes {', '.join(expected)}, the "
                f"Example has {', '.join(sorted(features)) or 'no features'}"
            )
        values = getattr(features[name], _KINDS[feature.dtype]).value
        if not values or feature.size not in (None, len(values)):
            raise RowError(
                f"feature {name} has {len(values)} values of {feature.dtype}; the "
                f"model takes {feature.size or 'one or more'}"
            )
        if feature.dtype == "string":
            for value in values:
                text = tf_examples.decode_text(name, value)
                if problem := row_values.find_text_problem(text, allows_marks=True):
                    raise RowError(f"feature {name} {problem}")


def _parsed_features(function: Any) -> Iterator[tuple[str, Feature]]:
    """Yields the features that a function of a graph parses from Examples."""
    import tensorflow as tf

    nodes = {node.name: node for node in function.node_def}
    for node in function.node_def:
        if node.op != "ParseExampleV2":
            continue
        # Its inputs: serialized, names, sparse_keys, dense_keys, ragged_keys, defaults.
        sparse, dense = (
            tf.make_ndarray(nodes[name.split(":")[0]].attr["value"].tensor).tolist()
            for name in node.input[2:4]
        )
        types = node.attr["sparse_types"].list.type
        for key, dtype in zip(sparse, types, strict=True):
            yield key.decode(), Feature(tf.as_dtype(dtype).name)
        types, shapes = node.attr["Tdense"].list.type, node.attr["dense_shapes"].list
        for key, dtype, shape in zip(dense, types, shapes.shape, strict=True):
            size = tf.TensorShape(shape).num_elements()
            yield key.decode(), Feature(tf.as_dtype(dtype).name, size)
