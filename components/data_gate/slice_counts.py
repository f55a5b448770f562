"""Counts the rows of each slice by a column, on Beam."""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence

import apache_beam as beam
from tfx import v1 as tfx

from components import examples
from contracts.task.definition import TaskConfig
from modules.data import slice_sizes
from modules.data.slice_sizes import Counts


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
        | "SliceValues" >> beam.FlatMap(examples.read_slices, columns, task)
        | "CountSlices" >> beam.CombinePerKey(_CountRows(task))
        | "SlicesToJson" >> beam.Map(json.dumps)
        | "WriteSlices" >> beam.io.WriteToText(output)
    )


def read_slices(output: str) -> dict[str, Counts]:
    """Returns the rows by column, value and label, and removes the files."""
    counts: dict[str, Counts] = {}
    for path in tfx.dsl.io.fileio.glob(f"{output}-*"):
        with tfx.dsl.io.fileio.open(path) as file:
            for column, slices in map(json.loads, file):
                counts[column] = {value: dict(rows) for value, rows in slices}
        tfx.dsl.io.fileio.remove(path)
    return dict(sorted(counts.items()))


class _CountRows(beam.CombineFn):
    """Counts rows as `Counts`."""

    def __init__(self, task: TaskConfig) -> None:
        self._task = task

    def create_accumulator(self) -> Counts:
        return {}

    def add_input(
        self, accumulator: Counts, element: tuple[str, float | list[float]]
    ) -> Counts:
        slice_sizes.count_row(accumulator, *element, self._task)
        return accumulator

    def merge_accumulators(self, accumulators: Iterable[Counts]) -> Counts:
        merged: Counts = {}
        for accumulator in accumulators:
            for value, labels in accumulator.items():
                for label, rows in labels.items():
                    slice_sizes.count_row(merged, value, label, self._task, rows)
        return merged

    def extract_output(
        self, accumulator: Counts
    ) -> list[tuple[str, list[tuple[float, int]]]]:
        # The keys of a JSON object are strings.
        return [(value, list(labels.items())) for value, labels in accumulator.items()]
