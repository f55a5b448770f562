"""Reads each split once with Beam, for the faults and the facts of its rows."""

from __future__ import annotations

import io
from collections.abc import Sequence
from typing import NamedTuple

import apache_beam as beam
import numpy as np
import tensorflow as tf
from tensorflow_metadata.proto.v0 import schema_pb2
from tfx import v1 as tfx

from components.data_gate import faulty_rows, slice_counts, word_sample
from contracts.storage import uris
from contracts.task.definition import TRAIN_SPLIT, TaskConfig
from modules.data import row_facts
from modules.data.leaked_labels import WordSample
from modules.data.row_facts import RowFacts
from modules.data.slice_sizes import Counts

_SPLIT = "split"


class Reading(NamedTuple):
    """The rows of all splits.

    Attributes:
      faults: The faults of the rows.
      facts: The facts of the rows by split.
      slices: The slices of one split.
      words: Words of a part of the training rows.
    """

    faults: faulty_rows.Faults
    facts: dict[str, RowFacts]
    slices: dict[str, Counts]
    words: WordSample


def read_splits(
    pipeline: beam.Pipeline,
    patterns: dict[str, str],
    directory: str,
    *,
    schema: schema_pb2.Schema,
    task: TaskConfig,
    vocab_file: str,
    invalid_splits: set[str],
    sliced: tuple[str, Sequence[str]],
) -> Reading:
    """Reads the splits.

    Args:
      pipeline: Reads the splits.
      patterns: TFRecord files by split.
      directory: Directory for Beam's output.
      schema: The schema of the rows.
      task: Names the columns.
      vocab_file: One token a line, in the encoder's directory.
      invalid_splits: The splits with anomalies; only their rows are validated.
      sliced: The split whose slices are counted, and their columns.
    """
    faults_output = uris.join(directory, "faults")
    facts_output = uris.join(directory, "facts")
    slices_output = uris.join(directory, "slices")
    words_output = uris.join(directory, "words")
    rule = (schema, task.id_column, invalid_splits)
    faults, facts = [], []
    with pipeline as p:
        for split, pattern in patterns.items():
            records = p | f"Read[{split}]" >> beam.io.ReadFromTFRecord(pattern)
            hashed = records | f"Hash[{split}]" >> beam.Map(_hash)
            faults.append(
                hashed
                | f"Find[{split}]"
                >> beam.FlatMap(faulty_rows.find_in_row, split, *rule)
            )
            facts.append(
                hashed
                | f"Batch[{split}]" >> beam.BatchElements(1000, 1000)
                | f"Describe[{split}]" >> beam.Map(_encode, split, task, vocab_file)
            )
            if split == sliced[0] and sliced[1]:
                slice_counts.count_slices(records, sliced[1], task, slices_output)
            if split == TRAIN_SPLIT and task.classes:
                word_sample.sample_words(hashed, task, words_output)
        faulty_rows.count_faults(faults, faults_output)
        # A file with many records, because some runners limit the size of an element.
        (
            facts
            | "AllFacts" >> beam.Flatten()
            | "WriteFacts" >> beam.io.WriteToTFRecord(facts_output)
        )
    parts: dict[str, list[RowFacts]] = {split: [] for split in patterns}
    paths = sorted(tfx.dsl.io.fileio.glob(f"{facts_output}-*"))
    dataset = tf.data.TFRecordDataset(tf.constant(paths, tf.string))
    for record in dataset.as_numpy_iterator():
        arrays = dict(np.load(io.BytesIO(record)))
        parts[str(arrays.pop(_SPLIT))].append(RowFacts(**arrays))
    for path in paths:
        tfx.dsl.io.fileio.remove(path)
    rows = {split: RowFacts.concatenate(facts) for split, facts in parts.items()}
    return Reading(
        faulty_rows.read_faults(faults_output),
        rows,
        slice_counts.read_slices(slices_output),
        word_sample.read_words(words_output),
    )


def _hash(record: bytes) -> tuple[int, bytes]:
    return row_facts.hash_record(record), record


def _encode(
    batch: list[tuple[int, bytes]], split: str, task: TaskConfig, vocab_file: str
) -> bytes:
    facts = row_facts.describe_examples(batch, task, vocab_file)
    buffer = io.BytesIO()
    np.savez(buffer, **{_SPLIT: np.array(split)}, **vars(facts))
    return buffer.getvalue()
