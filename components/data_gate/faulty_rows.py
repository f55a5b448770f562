"""Finds the rows that do not fit a schema, for the error message.

ExampleValidator reports counts of invalid rows and no ids. TFDV has no lower bound for
the length of a string, so rows without visible text are found here alone.
"""

from __future__ import annotations

import json
import os
import unicodedata
from collections.abc import Iterator

import apache_beam as beam
import tensorflow as tf
import tensorflow_data_validation as tfdv
from tensorflow_data_validation.api import validation_api
from tensorflow_metadata.proto.v0 import schema_pb2
from tfx import v1 as tfx
from tfx_bsl.coders import example_coder

from components import examples

# The annotation tag of features whose texts must not be empty.
NOT_EMPTY_TAG = "not_empty"

# Kinds of faults. TFDV describes what is invalid.
INVALID = "Invalid"
_NO_VALUE = "No value"
_EMPTY_TEXT = "Empty text"

_ROWS_SHOWN = 3
# Unicode categories of the characters that BERT's tokenizer drops: white space, control
# and format characters, such as the zero width space.
_INVISIBLE = {"Zs", "Zl", "Zp", "Cc", "Cf"}

# The number of rows and the first rows, each its id and values, by split, column and
# kind of the fault.
Faults = dict[tuple[str, str, str], tuple[int, list[tuple[int, str]]]]


def find_faults(
    pipeline: beam.Pipeline,
    patterns: dict[str, str],
    schema: schema_pb2.Schema,
    id_column: str,
    invalid_splits: set[str],
    directory: str,
) -> Faults:
    """Returns the faults of all splits, in the order of split, column and kind.

    Args:
      pipeline: Runs the search.
      patterns: TFRecord files by split.
      schema: The schema.
      id_column: The int64 feature that identifies a row.
      invalid_splits: The splits with anomalies; only their rows are validated.
      directory: For Beam's output.
    """
    output = os.path.join(directory, "faults")
    with pipeline as p:
        rows = [
            p
            | f"Read[{split}]" >> beam.io.ReadFromTFRecord(pattern)
            | f"Find[{split}]"
            >> beam.FlatMap(_find_in_row, split, schema, id_column, invalid_splits)
            for split, pattern in patterns.items()
        ]
        (
            rows
            | "AllSplits" >> beam.Flatten()
            | "CountAndSample"
            >> beam.CombinePerKey(
                beam.combiners.SingleInputTupleCombineFn(
                    beam.combiners.CountCombineFn(),
                    beam.combiners.TopCombineFn(_ROWS_SHOWN, reverse=True),
                )
            )
            | "ToJson" >> beam.Map(json.dumps)
            | "Write" >> beam.io.WriteToText(output)
        )
    faults: Faults = {}
    for path in tfx.dsl.io.fileio.glob(f"{output}-*"):
        with tfx.dsl.io.fileio.open(path) as file:
            for line in file:
                (split, column, kind), (count, first) = json.loads(line)
                faults[split, column, kind] = count, first
    return dict(sorted(faults.items()))


def _find_in_row(
    record: bytes,
    split: str,
    schema: schema_pb2.Schema,
    id_column: str,
    invalid_splits: set[str],
) -> Iterator[tuple[tuple[str, str, str], tuple[int, str]]]:
    """Yields ((split, column, kind), (id, values)) of each fault of an Example."""
    example = tf.train.Example.FromString(record)
    row = examples.read_id(example, id_column)
    faults = _check_features(example, schema, split)
    if split in invalid_splits:  # it takes milliseconds per row
        batch = example_coder.ExamplesToRecordBatchDecoder().DecodeBatch([record])
        anomalies = validation_api.validate_instance(
            batch, tfdv.StatsOptions(schema=schema)
        )
        faults += [(column, INVALID) for column in anomalies.anomaly_info]
    for column, kind in faults:
        values = f"{examples.read_values(example, column)!r:.80}"
        yield (split, column, kind), (row, values)


def _check_features(
    example: tf.train.Example, schema: schema_pb2.Schema, split: str
) -> list[tuple[str, str]]:
    faults = []
    for feature in schema.feature:
        values = examples.read_values(example, feature.name)
        is_required = feature.presence.min_fraction == 1
        if (is_required or split in feature.in_environment) and not values:
            faults.append((feature.name, _NO_VALUE))
        if NOT_EMPTY_TAG in feature.annotation.tag and any(
            isinstance(value, bytes) and _is_empty(value) for value in values
        ):
            faults.append((feature.name, _EMPTY_TEXT))
    return faults


def _is_empty(text: bytes) -> bool:
    # The tokenizer drops bytes that are not UTF-8, and their replacement character.
    characters = text.decode("utf-8", errors="ignore").replace("\ufffd", "")
    return all(
        unicodedata.category(character) in _INVISIBLE for character in characters
    )
