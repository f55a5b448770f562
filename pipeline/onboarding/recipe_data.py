"""Inspects the data of a recipe, read like in a run."""

from __future__ import annotations

import collections
import functools
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path

from contracts.errors import UsageError
from contracts.settings.data import TFDS_PREFIX
from contracts.storage import uris
from ingest import examples as examples_lib
from ingest.examples import sources, spans, splitting, text_source, tfds_source
from ingest.examples.bad_rows import BadRows
from ingest.examples.label_parser import NotAnIndexError
from ingest.examples.splits import GoodRow, Report, Row
from ingest.rows.row_errors import RowError
from pipeline.config.paths import OutputPaths
from pipeline.config.recipe import Config
from pipeline.inputs import encoder_source
from pipeline.inputs.resolved_checks import resolve_checks
from pipeline.onboarding.columns import Column, add_row
from pipeline.onboarding.data_set import remote_error
from pipeline.onboarding.inspection import Inspection, Inspector, Progress


def inspect_recipe(
    config: Config, report: Report, progress: Progress = lambda rows: None
) -> Inspection:
    """Reads all rows of a recipe's data, and judges them.

    Raises:
      UsageError: The data cannot be read, are remote, or are token ids.
    """
    task = config.task
    if task.is_tokenized:
        raise UsageError(
            "task.input",
            "tokenized, but only texts are inspected",
            advice="name the texts with `path=PATH`, and use `task.input=text`",
            name="E-format-unknown",
        )
    encoder = encoder_source.resolve_encoder(config, report=report)
    try:
        return _inspect(config, encoder.vocab_file, report, progress)
    except NotAnIndexError:
        task = task.model_copy(update={"labels": "name"})
        config = config.model_copy(update={"task": task})
        return _inspect(config, encoder.vocab_file, report, progress)


def _inspect(
    config: Config, vocab_file: str, report: Report, progress: Progress
) -> Inspection:
    settings = config.data
    inspector = Inspector(config.task, vocab_file, settings.slice_columns, progress)
    with (
        tempfile.TemporaryDirectory() as directory,
        BadRows(settings.on_bad_rows, Path(directory)) as bad_rows,
    ):
        columns: dict[str, Column] = {}
        watch = functools.partial(add_row, columns)
        opened = _open(config, report, bad_rows, watch)
        labelled = {name: rows for name, rows in opened.items() if rows is not None}
        config = config.with_split(labelled)
        for name, rows in labelled.items():
            collections.deque(inspector.add(name, rows), maxlen=0)
        checks = resolve_checks(config, OutputPaths(Path(directory), config.name))
        return inspector.finish(
            config, bad_rows, columns.values(), checks.of_data.configure()
        )


def _open(
    config: Config,
    report: Report,
    bad_rows: BadRows,
    watch: Callable[[Row | RowError], None],
) -> dict[str, Iterator[GoodRow] | None]:
    location, task, settings = config.data_source, config.task, config.data
    arguments = task, settings, report, bad_rows, watch
    reading = bad_rows, task, settings
    if location.startswith(TFDS_PREFIX):
        opened = tfds_source.open_splits(location, *arguments)
        return splitting.complete_splits(opened, *reading, config.halving)
    if not uris.is_local(location):
        raise remote_error(location)
    if spans.has_span(location):
        location, _ = spans.find_span(location, settings.span, report)
    source, halving = sources.find_source(location, settings), config.halving
    if not source.files:
        halving = None  # a run reads TFRecords as they are
        records = examples_lib.find_examples(location, settings)
        source = sources.open_source(
            location,
            {s: examples_lib.list_examples(records, s) for s in records.patterns},
            settings,
        )
    opened = text_source.open_splits(source, *arguments)
    completed = splitting.complete_splits(opened, *reading, halving)
    for line in source.describe_reading():
        report(line)
    return completed
