"""Predictions with a text column permuted among the rows, for the report."""

from __future__ import annotations

import base64
import dataclasses
import random
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import tensorflow as tf

from components.serving_check.request import ServingRequest, SignatureRequest
from contracts.storage import files, uris

REQUEST_FILE = "request.json"
_FILE = "permuted.json"


@dataclasses.dataclass(frozen=True)
class PermutedColumns:
    """Rows of a pair, and a model's outputs with and without each of its columns.

    Attributes:
      examples: The rows.
      outputs: Probabilities float64[rows, classes], or scores float64[rows].
      permuted: By column, the outputs if each row has that column of another row.
    """

    examples: list[tf.train.Example]
    outputs: np.ndarray
    permuted: dict[str, np.ndarray]


def permute(rows: Sequence[tf.train.Example], column: str) -> list[tf.train.Example]:
    """Returns the rows, each with the value of a column of another row.

    The order is random, and always the same. No row keeps its value, if there are two.
    """
    order = random.Random(0).sample(range(len(rows)), len(rows))
    permuted = [tf.train.Example.FromString(row.SerializeToString()) for row in rows]
    for index, other in zip(order, order[1:] + order[:1], strict=True):
        value = rows[other].features.feature[column]
        permuted[index].features.feature[column].CopyFrom(value)
    return permuted


def write(
    directory: str, request: ServingRequest, predictions: Mapping[str, Any]
) -> None:
    """Writes the outputs of a blessed model that `read_permuted` returns, if any.

    Args:
      directory: Directory of the component's `blessing`, which has the request, too.
      request: The request that was sent.
      predictions: The probe's, by signature.
    """
    signature = _find_signature(request)
    outputs = predictions[signature.name] if signature else {}
    if "permuted" in outputs:
        content = {key: outputs[key] for key in ("values", "permuted")}
        files.write_record(uris.join(directory, _FILE), content)


def read_permuted(directory: str) -> PermutedColumns | None:
    """Reads the rows and the outputs of a check.

    Args:
      directory: Directory of the component's `blessing`.

    Returns:
      None if the model is not blessed, does not take a pair of texts, or took too long.
    """
    outputs = files.read_record(uris.join(directory, _FILE))
    if outputs is None:
        return None
    content = files.read_json(uris.join(directory, REQUEST_FILE))
    signature = _find_signature(ServingRequest.model_validate(content))
    assert signature is not None  # the outputs are its
    (records,) = signature.inputs.values()
    return PermutedColumns(
        [
            tf.train.Example.FromString(base64.b64decode(record["b64"]))
            for record in records
            if isinstance(record, dict)
        ],
        np.asarray(outputs["values"], float),
        {
            name: np.asarray(values, float)
            for name, values in outputs["permuted"].items()
        },
    )


def _find_signature(request: ServingRequest) -> SignatureRequest | None:
    return next((part for part in request.signatures if part.permuted), None)
