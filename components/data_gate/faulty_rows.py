"""Finds the rows that do not fit a schema, for the error message.

ExampleValidator reports counts of invalid rows, but not their ids. TFDV has no lower
bound for the length of a string, and takes any bytes for one, so only this module finds
rows without visible text, or with bytes that are not UTF-8.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator

import apache_beam as beam
import tensorflow as tf
import tensorflow_data_validation as tfdv
from tensorflow_data_validation.api import validation_api
from tensorflow_metadata.proto.v0 import schema_pb2
from tfx import v1 as tfx
from tfx_bsl.coders import example_coder

from components import examples
from contracts.row_values import is_empty
from contracts.settings.data_gate import NOT_EMPTY_TAG
from modules.data.judgment import SHOWN

# The kind of the faults that TFDV finds and describes.
INVALID = "Invalid"

# By split, column and kind of the fault: the number of rows, and the id, values and
# hash of the first rows.
Faults = dict[tuple[str, str, str], tuple[int, list[tuple[int, str, int]]]]


def count_faults(rows: Iterable[beam.PCollection], output: str) -> None:
    """Counts the faults of all splits, and writes them for `read_faults`.

    Args:
      rows: The results of `find_in_row` for each split.
      output: Prefix of the files.
    """
    (
        rows
        | "AllSplits" >> beam.Flatten()
        | "CountAndSample"
        >> beam.CombinePerKey(
            beam.combiners.SingleInputTupleCombineFn(
                beam.combiners.CountCombineFn(),
                beam.combiners.TopCombineFn(SHOWN, reverse=True),
            )
        )
        | "ToJson" >> beam.Map(json.dumps)
        | "Write" >> beam.io.WriteToText(output)
    )


def read_faults(output: str) -> Faults:
    """Returns the faults of all splits, in the order of split, column and kind."""
    faults: Faults = {}
    for path in tfx.dsl.io.fileio.glob(f"{output}-*"):
        with tfx.dsl.io.fileio.open(path) as file:
            for line in file:
                (split, column, kind), (count, first) = json.loads(line)
                faults[split, column, kind] = count, first
    return dict(sorted(faults.items()))


def find_in_row(
    hashed: tuple[int, bytes],
    split: str,
    schema: schema_pb2.Schema,
    id_column: str,
    invalid_splits: set[str],
) -> Iterator[tuple[tuple[str, str, str], tuple[int, str, int]]]:
    """Yields ((split, column, kind), (id, values, hash)) of each fault of an Example.

    Args:
      hashed: `row_facts.hash_record` of an Example, and the Example.
      split: Its split.
      schema: The schema.
      id_column: The int64 feature that identifies a row.
      invalid_splits: The splits with anomalies; only their rows are validated.
    """
    key, record = hashed
    example = tf.train.Example.FromString(record)
    row = examples.read_id(example, id_column)
    faults = []
    for feature in schema.feature:
        values = examples.read_values(example, feature.name)
        is_required = feature.presence.min_fraction == 1
        if (is_required or split in feature.in_environment) and not values:
            faults.append((feature.name, "No value"))
        if NOT_EMPTY_TAG in feature.annotation.tag:
            texts = [value for value in values if isinstance(value, bytes)]
            if any(is_empty(text.decode("utf-8", "replace")) for text in texts):
                faults.append((feature.name, "Empty text"))
            if not all(map(_is_utf_8, texts)):
                faults.append((feature.name, "Not UTF-8"))
    if split in invalid_splits:  # validation takes milliseconds per row
        batch = example_coder.ExamplesToRecordBatchDecoder().DecodeBatch([record])
        anomalies = validation_api.validate_instance(
            batch, tfdv.StatsOptions(schema=schema)
        )
        faults += [(column, INVALID) for column in anomalies.anomaly_info]
    for column, kind in faults:
        shown = f"{examples.read_values(example, column)!r:.80}"
        yield (split, column, kind), (row, shown, key)


def _is_utf_8(text: bytes) -> bool:
    try:
        text.decode()
    except UnicodeDecodeError:
        return False
    return True
