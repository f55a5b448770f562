"""Finds rows without a required value or visible text.

TFDV counts rows without a value but does not identify them, and has no lower bound for
the length of a string.
"""

from __future__ import annotations

import os
import unicodedata
from collections.abc import Iterator

import apache_beam as beam
import tensorflow as tf
from tensorflow_metadata.proto.v0 import schema_pb2
from tfx import v1 as tfx

from components import examples

# The annotation tag of features whose texts must not be empty.
NOT_EMPTY_TAG = "not_empty"
ROWS_SHOWN = 3

# Unicode categories of the characters that BERT's tokenizer drops: white space, control
# and format characters, such as the zero width space.
_INVISIBLE = {"Zs", "Zl", "Zp", "Cc", "Cf"}
_NO_ID = -1


def find_gaps(
    pipeline: beam.Pipeline,
    patterns: dict[str, str],
    schema: schema_pb2.Schema,
    id_column: str,
    directory: str,
) -> list[str]:
    """Returns a description of each kind of gap, with its number of rows and some ids.

    Args:
      pipeline: Runs the search.
      patterns: TFRecord files by split.
      schema: Names the required features and the texts.
      id_column: The int64 feature that identifies a row.
      directory: For Beam's output.
    """
    required = [f.name for f in schema.feature if f.presence.min_fraction == 1]
    texts = [f.name for f in schema.feature if NOT_EMPTY_TAG in f.annotation.tag]
    output = os.path.join(directory, "gaps")
    with pipeline as p:
        rows = [
            p
            | f"Read[{split}]" >> beam.io.ReadFromTFRecord(pattern)
            | f"Find[{split}]"
            >> beam.FlatMap(_find_in_row, split, required, texts, id_column)
            for split, pattern in patterns.items()
        ]
        (
            rows
            | "AllSplits" >> beam.Flatten()
            | "CountAndSample"
            >> beam.CombinePerKey(
                beam.combiners.SingleInputTupleCombineFn(
                    beam.combiners.CountCombineFn(),
                    beam.combiners.TopCombineFn(ROWS_SHOWN, reverse=True),
                )
            )
            | "Describe" >> beam.MapTuple(_describe)
            | "Write" >> beam.io.WriteToText(output)
        )
    descriptions = []
    for path in tfx.dsl.io.fileio.glob(f"{output}-*"):
        with tfx.dsl.io.fileio.open(path) as file:
            descriptions += [line.rstrip("\n") for line in file]
    return sorted(descriptions)


def _find_in_row(
    record: bytes, split: str, required: list[str], texts: list[str], id_column: str
) -> Iterator[tuple[tuple[str, str, str], int]]:
    example = tf.train.Example.FromString(record)
    row = examples.read_id(example, id_column)
    row = _NO_ID if row is None else row
    for column in required:
        if not examples.read_values(example, column):
            yield (split, column, "No value"), row
    for column in texts:
        values = examples.read_values(example, column)
        if any(isinstance(value, bytes) and _is_empty(value) for value in values):
            yield (split, column, "Empty text"), row


def _is_empty(text: bytes) -> bool:
    # The tokenizer drops bytes that are not UTF-8, and their replacement character.
    characters = text.decode("utf-8", errors="ignore").replace("\ufffd", "")
    return all(
        unicodedata.category(character) in _INVISIBLE for character in characters
    )


def _describe(gap: tuple[str, str, str], count_and_rows: tuple[int, list[int]]) -> str:
    (split, column, kind), (count, rows) = gap, count_and_rows
    shown = ", ".join(map(str, rows))
    return f"{split}: {column}: {kind}: in {count} examples (rows {shown})"
