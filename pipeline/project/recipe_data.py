"""Inspects the data of a recipe, as a run would read them."""

from __future__ import annotations

import tempfile
from collections.abc import Iterable, Iterator
from pathlib import Path

from modules import uris
from pipeline.config.errors import UsageError
from pipeline.config.recipe import Config
from pipeline.inputs import encoder_source
from pipeline.inputs import examples as examples_lib
from pipeline.inputs.examples import sources, spans, text_source, tfds_source
from pipeline.inputs.examples.bad_rows import BadRows
from pipeline.inputs.examples.row_values import RowParser
from pipeline.inputs.examples.sources import Source
from pipeline.inputs.examples.splits import TRAIN, OpenSplit, Report, Row
from pipeline.inputs.rows.row_errors import Location, RowError
from pipeline.project.columns import Column, add_row
from pipeline.project.inspection import Inspection, Inspector, Progress


def inspect_recipe(
    config: Config, report: Report, progress: Progress = lambda rows: None
) -> Inspection:
    """Reads all rows of a recipe's data, and judges them.

    Args:
      config: Names the data, the task and the encoder.
      report: Called with a line for the user.
      progress: Called with the number of rows so far.

    Raises:
      UsageError: The data cannot be read, or are tokenized already.
    """
    task, settings = config.task, config.data
    if task.is_tokenized:
        raise UsageError("task.input is tokenized: inspect-data looks at text")
    encoder = encoder_source.resolve_encoder(config, report=report)
    inspector = Inspector(task, encoder.vocab_file, progress)
    with (
        tempfile.TemporaryDirectory() as directory,
        BadRows(settings.on_bad_rows, Path(directory)) as bad_rows,
    ):
        columns: dict[str, Column] = {}
        for name, split in _open(config, report).items():
            if split is None:
                continue
            parser = RowParser(task, settings, split.class_of_value)
            rows = _watch(split.rows, columns) if name == TRAIN else split.rows
            for _ in inspector.add(name, bad_rows.filter(name, rows, parser.parse)):
                pass
        return inspector.finish(
            config.data_gate,
            bad_rows,
            gate_split=config.evaluator.split,
            thresholds=config.evaluator.thresholds,
            max_seq_length=config.preprocessing.max_seq_length,
            columns=columns.values(),
        )


def _watch(
    rows: Iterable[tuple[Location, Row | RowError]], columns: dict[str, Column]
) -> Iterator[tuple[Location, Row | RowError]]:
    for location, row in rows:
        add_row(columns, row)
        yield location, row


def _open(config: Config, report: Report) -> dict[str, OpenSplit | None]:
    location, task, settings = config.data_source, config.task, config.data
    if location.startswith(tfds_source.PREFIX):
        return tfds_source.open_splits(location, task, report)
    if not uris.is_local(location):
        raise UsageError(f"data {location} is remote: inspect-data reads local files")
    if spans.has_span(location):
        location, _ = spans.find_span(location, settings.span, report)
    source = sources.find_source(location, settings)
    if not source.files:
        records = examples_lib.find_examples(location)
        source = Source(
            location,
            {s: examples_lib.list_examples(records, s) for s in records.patterns},
        )
    for line in source.describe_reading(settings):
        report(line)
    return text_source.open_splits(source, task, settings, report)
