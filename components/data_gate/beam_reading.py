"""Reads each split once with Beam: faults of its rows, and facts to judge."""

from __future__ import annotations

import io
from collections.abc import Iterator

import apache_beam as beam
import numpy as np
import tensorflow as tf
from tensorflow_metadata.proto.v0 import schema_pb2
from tfx import v1 as tfx

from components.data_gate import faulty_rows
from modules import uris
from modules.config.task import TaskConfig
from modules.data import row_facts
from modules.data.row_facts import RowFacts

_BATCH = 1000
_SPLIT = "split"


def read_splits(
    pipeline: beam.Pipeline,
    patterns: dict[str, str],
    directory: str,
    *,
    schema: schema_pb2.Schema,
    task: TaskConfig,
    vocab_file: str,
    invalid_splits: set[str],
) -> tuple[faulty_rows.Faults, dict[str, RowFacts]]:
    """Returns the faults of the rows, and the facts of each split.

    Args:
      pipeline: Reads the splits.
      patterns: TFRecord files by split.
      directory: For Beam's output.
      schema: The schema.
      task: Names the columns.
      vocab_file: One token a line, in the encoder's directory.
      invalid_splits: The splits with anomalies; only their rows are validated.
    """
    faults_output = uris.join(directory, "faults")
    facts_output = uris.join(directory, "facts")
    rule = (schema, task.id_column, invalid_splits)
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
                | f"Describe[{split}]" >> beam.Map(_encode, split, task, vocab_file)
            )
        faulty_rows.count_faults(faults, faults_output)
        # A file of many records: all facts in one element would not fit every runner.
        (
            facts
            | "AllFacts" >> beam.Flatten()
            | "WriteFacts" >> beam.io.WriteToTFRecord(facts_output)
        )
    parts: dict[str, list[RowFacts]] = {split: [] for split in patterns}
    paths = sorted(tfx.dsl.io.fileio.glob(f"{facts_output}-*"))
    for split, part in _decode(paths):
        parts[split].append(part)
    for path in paths:
        tfx.dsl.io.fileio.remove(path)
    rows = {split: RowFacts.concatenate(facts) for split, facts in parts.items()}
    return faulty_rows.read_faults(faults_output), rows


def _encode(batch: list[bytes], split: str, task: TaskConfig, vocab_file: str) -> bytes:
    facts = row_facts.describe_examples(batch, task, vocab_file)
    buffer = io.BytesIO()
    np.savez(buffer, **{_SPLIT: np.array(split)}, **vars(facts))
    return buffer.getvalue()


def _decode(paths: list[str]) -> Iterator[tuple[str, RowFacts]]:
    records = tf.constant(paths, tf.string)
    for record in tf.data.TFRecordDataset(records).as_numpy_iterator():
        arrays = dict(np.load(io.BytesIO(record)))
        yield str(arrays.pop(_SPLIT)), RowFacts(**arrays)
