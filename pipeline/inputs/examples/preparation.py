"""Prepares the Examples of a run from any source."""

from __future__ import annotations

import contextlib
import dataclasses
from pathlib import Path

from modules import fingerprint
from modules.config.task import TOKENIZED_FEATURES, TaskConfig
from pipeline.config.errors import UsageError
from pipeline.config.paths import OutputPaths
from pipeline.inputs import remote
from pipeline.inputs.examples import spans, tables, tfds_source
from pipeline.inputs.examples.spans import Span
from pipeline.inputs.examples.splits import MissingSplitError, Report
from pipeline.inputs.examples.tfrecords import (
    ExamplesDirectory,
    find_examples,
    write_records,
)
from pipeline.inputs.working_directory import WorkingDirectory


class DestinationExistsError(UsageError):
    """The directory to write to exists."""


def resolve_examples(
    source: str,
    task: TaskConfig,
    paths: OutputPaths,
    report: Report = lambda _: None,
    *,
    span: int | None = None,
) -> ExamplesDirectory:
    """Returns the Examples of a run; text and TFDS data are written as TFRecords first.

    Args:
      source: A directory of TFRecord or TSV splits, or `tfds:NAME`. Tokenized input
        must be TFRecords. Of a directory with `{SPAN}` in its path, one span is used.
      task: Names the columns and classes.
      paths: Where TFRecords are written. Those of the same text are used again.
      report: Called with a line for the user.
      span: The number of the span; None is the newest.

    Raises:
      UsageError: The source does not exist or cannot be read.
    """
    if not spans.has_span(source):
        return _resolve(source, task, paths, report)
    directory, found_span = spans.find_span(source, span, report)
    try:
        return _resolve(directory, task, paths, report, found_span)
    except MissingSplitError as error:
        raise UsageError(
            f"{error}. It is span {found_span.number} of {source}: complete it, or use "
            "another one with --set data.span=N"
        ) from error


def _resolve(
    source: str,
    task: TaskConfig,
    paths: OutputPaths,
    report: Report,
    span: Span | None = None,
) -> ExamplesDirectory:
    if source.startswith(tfds_source.PREFIX):
        key = source
    elif "://" in source:
        with remote.usage_errors(f"data {source}", "--data DIR"):
            return dataclasses.replace(find_examples(source), span=span)
    else:
        files = tables.find_tables(source)
        if task.is_tokenized or not files:
            examples = _find_local(source, task, has_text=bool(files))
            return dataclasses.replace(examples, span=span)
        key = fingerprint.of_files(files.values())
    _refuse_tokenized(source, task)
    code = fingerprint.of_code(__name__)
    # Key on the span: equal text in two spans yields two sets of Examples.
    number = "" if span is None else str(span.number)
    key = fingerprint.of_text(key, task.model_dump_json(), code, number)
    destination = paths.examples(key[:16])
    if span is not None:
        span = Span(span.number, str(destination), spans.SPAN)
        destination /= number
    # The name is a hash of the content: what another run wrote there is the same.
    with contextlib.suppress(DestinationExistsError):
        prepare(source, str(destination), task, report)
    return dataclasses.replace(find_examples(str(destination)), span=span)


def prepare(
    source: str, destination: str, task: TaskConfig, report: Report = lambda _: None
) -> dict[str, int]:
    """Writes text as TFRecords, a folder for each split.

    Args:
      source: A directory of TSV splits, or `tfds:NAME`.
      destination: A new directory. It appears when it is complete.
      task: Names the columns and classes.
      report: Called with a line for the user.

    Returns:
      The number of examples of each split.

    Raises:
      UsageError: The source cannot be read, a row is malformed, or the destination
        exists.
    """
    target = Path(destination)
    _refuse_existing(target)
    _refuse_tokenized(source, task)
    is_tfds = source.startswith(tfds_source.PREFIX)
    open_source = tfds_source.open_tables if is_tfds else tables.open_tables
    rows_by_split = open_source(source, task, report)
    working = WorkingDirectory(target.with_name(f".{target.name}.incomplete"))
    working.open(wait=report)
    try:
        _refuse_existing(target)
        counts = {}
        for split, rows in rows_by_split.items():
            if rows is not None:
                counts[split] = write_records(rows, working.path / split, task)
                report(f"{split}: {counts[split]} examples")
        working.publish(target)
    finally:
        working.delete()
    return counts


def _refuse_existing(target: Path) -> None:
    if target.exists():
        raise DestinationExistsError(f"{target} exists; name a new directory")


def _find_local(source: str, task: TaskConfig, *, has_text: bool) -> ExamplesDirectory:
    try:
        return find_examples(source)
    except UsageError:
        if has_text:
            _refuse_tokenized(source, task)
        raise


def _refuse_tokenized(source: str, task: TaskConfig) -> None:
    if task.is_tokenized:
        raise UsageError(
            f"task.input is tokenized, but data {source} is text; name a directory of "
            f"TFRecords that have {', '.join(TOKENIZED_FEATURES)} and "
            f"{task.label_column} with data.source, or set task.input=text"
        )
