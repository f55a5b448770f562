"""Reads each split once with Beam: faults of its rows, and facts to judge."""

from __future__ import annotations

import io
from collections.abc import Callable, Iterator
from typing import Any

import apache_beam as beam
import numpy as np
import tensorflow as tf
from tensorflow_metadata.proto.v0 import schema_pb2
from tfx import v1 as tfx

from components.data_gate import faulty_rows
from modules import uris

_BATCH = 1000
_SPLIT = "split"

# Arrays by name, of equal length.
Facts = dict[str, np.ndarray]


def read_splits(
    pipeline: beam.Pipeline,
    patterns: dict[str, str],
    directory: str,
    *,
    schema: schema_pb2.Schema,
    id_column: str,
    invalid_splits: set[str],
    hash_record: Callable[[bytes], int],
    is_empty: Callable[[str], bool],
    describe: Callable[[list[bytes], dict[str, Any]], Facts],
    settings: dict[str, Any],
) -> tuple[faulty_rows.Faults, dict[str, list[Facts]]]:
    """Returns the faults of the rows, and the facts of each split in parts.

    Args:
      pipeline: Reads the splits.
      patterns: TFRecord files by split.
      directory: For Beam's output.
      schema: The schema.
      id_column: The int64 feature that identifies a row.
      invalid_splits: The splits with anomalies; only their rows are validated.
      hash_record: Returns what a row is found again by.
      is_empty: Returns whether a model sees nothing of a text.
      describe: Returns the facts of a batch of rows.
      settings: The second argument of `describe`.
    """
    faults_output = uris.join(directory, "faults")
    facts_output = uris.join(directory, "facts")
    rule = (schema, id_column, invalid_splits, hash_record, is_empty)
    faults, facts = [], []
    with pipeline as p:
        for split, pattern in patterns.items():
            records = p | f"Read[{split}]" >> beam.io.ReadFromTFRecord(pattern)
            faults.append(
                records
                | f"Find[{split}]"
                >> beam.FlatMap(faulty_rows.find_in_row, split, *rule)
            )
            facts.append(
                records
                | f"Batch[{split}]" >> beam.BatchElements(_BATCH, _BATCH)
                | f"Describe[{split}]" >> beam.Map(_encode, split, describe, settings)
            )
        faulty_rows.count_faults(faults, faults_output)
        # A file of many records: all facts in one element would not fit every runner.
        (
            facts
            | "AllFacts" >> beam.Flatten()
            | "WriteFacts" >> beam.io.WriteToTFRecord(facts_output)
        )
    parts: dict[str, list[Facts]] = {split: [] for split in patterns}
    paths = sorted(tfx.dsl.io.fileio.glob(f"{facts_output}-*"))
    for split, part in _decode(paths):
        parts[split].append(part)
    for path in paths:
        tfx.dsl.io.fileio.remove(path)
    return faulty_rows.read_faults(faults_output), parts


def _encode(
    batch: list[bytes],
    split: str,
    describe: Callable[[list[bytes], dict[str, Any]], Facts],
    settings: dict[str, Any],
) -> bytes:
    buffer = io.BytesIO()
    np.savez(buffer, **{_SPLIT: np.array(split)}, **describe(batch, settings))
    return buffer.getvalue()


def _decode(paths: list[str]) -> Iterator[tuple[str, Facts]]:
    records = tf.constant(paths, tf.string)
    for record in tf.data.TFRecordDataset(records).as_numpy_iterator():
        arrays = dict(np.load(io.BytesIO(record)))
        yield str(arrays.pop(_SPLIT)), arrays
