"""Predictions with a text column permuted among the rows, for the report."""

from __future__ import annotations

import base64
import random
from collections.abc import Mapping, Sequence
from typing import Any

import tensorflow as tf

from components.serving_check.request import ServingRequest
from contracts.records import RecordFile


class PermutedColumns(RecordFile):
    """Rows of a pair, and a model's outputs with and without each of its columns.

    Attributes:
      rows: The rows as `SignatureRequest.inputs` has them.
      outputs: Probabilities [rows][classes], or scores [rows].
      permuted: By column, the outputs if each row has that column of another row.
    """

    FILE = "permuted.json"

    rows: list[str | dict[str, str]]
    outputs: list[Any]
    permuted: dict[str, list[Any]]

    @property
    def examples(self) -> list[tf.train.Example]:
        """The rows."""
        records = (base64.b64decode(r["b64"]) for r in self.rows if isinstance(r, dict))
        return list(map(tf.train.Example.FromString, records))


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
    """Writes the outputs of a blessed model that takes a pair of texts.

    Args:
      directory: Directory of the component's `blessing`.
      request: The request that was sent.
      predictions: The probe's, by signature. They lack the permuted columns if the
        model took too long.
    """
    for signature in request.signatures:
        outputs = predictions[signature.name]
        if "permuted" in outputs:
            (rows,) = signature.inputs.values()
            PermutedColumns(
                rows=rows, outputs=outputs["values"], permuted=outputs["permuted"]
            ).write(directory)
