"""Counts the rows of each slice by a column, on Beam."""

from __future__ import annotations

import itertools
import json
from collections.abc import Iterable, Iterator, Sequence

import apache_beam as beam
import tensorflow as tf
from tfx import v1 as tfx

from components import examples
from modules.config.task import TaskConfig
from modules.data import row_values, slice_columns, slice_judgment
from modules.data.slice_judgment import Counts


def count_slices(
    records: beam.PCollection, columns: Sequence[str], task: TaskConfig, output: str
) -> None:
    """Counts the rows of a split, and writes the counts for `read_slices`.

    Args:
      records: Serialized Examples.
      columns: The columns.
      task: Names the label.
      output: Prefix of the files.
    """
    (
        records
        | "SliceValues" >> beam.FlatMap(_values, columns, task)
        | "CountSlices" >> beam.CombinePerKey(_CountRows(task))
        | "SlicesToJson" >> beam.Map(json.dumps)
        | "WriteSlices" >> beam.io.WriteToText(output)
    )


def read_slices(output: str) -> dict[str, Counts]:
    """Returns the rows by column, value and label, in the order of the columns."""
    counts: dict[str, Counts] = {}
    for path in tfx.dsl.io.fileio.glob(f"{output}-*"):
        with tfx.dsl.io.fileio.open(path) as file:
            counts |= dict(map(json.loads, file))
    return dict(sorted(counts.items()))


def _values(
    record: bytes, columns: Sequence[str], task: TaskConfig
) -> Iterator[tuple[str, tuple[str, int]]]:
    """Yields (column, (value, label)) of an Example with a label."""
    example = tf.train.Example.FromString(record)
    match examples.read_values(example, task.label_column):
        case [int() | float() as label] if row_values.is_label(label, task):
            label = int(label) if task.classes else 0
            for column in columns:
                yield column, (slice_columns.read_value(example, column), label)


class _CountRows(beam.CombineFn):
    """Counts rows as `Counts`."""

    def __init__(self, task: TaskConfig) -> None:
        self._task = task

    def create_accumulator(self) -> dict[str, list[int]]:
        return {}

    def add_input(
        self, accumulator: dict[str, list[int]], element: tuple[str, int]
    ) -> dict[str, list[int]]:
        slice_judgment.count_row(accumulator, *element, self._task)
        return accumulator

    def merge_accumulators(
        self, accumulators: Iterable[dict[str, list[int]]]
    ) -> dict[str, list[int]]:
        merged: dict[str, list[int]] = {}
        for value, counts in itertools.chain.from_iterable(
            accumulator.items() for accumulator in accumulators
        ):
            for label, rows in enumerate(counts):
                slice_judgment.count_row(merged, value, label, self._task, rows)
        return merged

    def extract_output(self, accumulator: dict[str, list[int]]) -> dict[str, list[int]]:
        return accumulator
