"""Samples the words of the training rows, on Beam."""

from __future__ import annotations

import itertools
import json
from collections.abc import Iterable

import apache_beam as beam
import tensorflow as tf
from tfx import v1 as tfx

from components.examples import read_values
from contracts.task.definition import TOKENIZED_FEATURES, TaskConfig
from modules.data.leaked_labels import Label, Sampled, Words, WordSample, cut_words
from modules.data.words import split_words


def sample_words(records: beam.PCollection, task: TaskConfig, output: str) -> None:
    """Writes the words of a part of the rows for `read_words`.

    Args:
      records: Serialized Examples with their `row_facts.hash_record`.
      task: Names the columns.
      output: Prefix of the files.
    """
    (
        records
        | "SampleWords" >> beam.CombineGlobally(_SampleWords(task)).without_defaults()
        | "SplitSample" >> beam.FlatMap(lambda rows: rows)
        | "WordsToJson" >> beam.Map(json.dumps)
        | "WriteWords" >> beam.io.WriteToText(output)
    )


def read_words(output: str) -> WordSample:
    """Returns the sample, and removes the files."""
    rows: list[Sampled] = []
    for path in tfx.dsl.io.fileio.glob(f"{output}-*"):
        with tfx.dsl.io.fileio.open(path) as file:
            rows += [tuple(json.loads(line)) for line in file]
        tfx.dsl.io.fileio.remove(path)
    return WordSample(rows)


class _SampleWords(beam.CombineFn):
    """Keeps the rows with the smallest hashes."""

    def __init__(self, task: TaskConfig) -> None:
        self._task = task

    def create_accumulator(self) -> WordSample:
        return WordSample()

    def add_input(
        self, accumulator: WordSample, element: tuple[int, bytes]
    ) -> WordSample:
        key, record = element
        if key <= accumulator.bound:
            row = _read(record, self._task)
            if row is not None:
                accumulator.add(key, *row)
        return accumulator

    def merge_accumulators(self, accumulators: Iterable[WordSample]) -> WordSample:
        return WordSample(itertools.chain.from_iterable(a.rows for a in accumulators))

    def extract_output(self, accumulator: WordSample) -> list[Sampled]:
        return accumulator.rows


def _read(record: bytes, task: TaskConfig) -> tuple[Label, Words] | None:
    """Returns label and words of an Example; None without a label."""
    example = tf.train.Example.FromString(record)
    label = task.label_kind.read(read_values(example, task.label_column))
    if label is None:
        return None
    if task.is_tokenized:
        ids, mask, _ = (read_values(example, name) for name in TOKENIZED_FEATURES)
        tokens = zip(ids, mask, strict=False)
        return label, [cut_words([str(i) for i, is_real in tokens if is_real])]
    texts = (b"".join(read_values(example, name)) for name in task.text_columns)
    return label, [
        cut_words(split_words(text.decode("utf-8", "replace"))) for text in texts
    ]
