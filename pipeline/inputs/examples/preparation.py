"""From a source of any kind to TFRecords."""

from __future__ import annotations

import contextlib
import dataclasses
from pathlib import Path

from modules import fingerprint
from modules.config.task import TOKENIZED_FEATURES, TaskConfig
from pipeline.config.errors import UsageError
from pipeline.config.paths import OutputPaths
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
    """Settles where a run's Examples are; text and TFDS become TFRecords first.

    Args:
      source: A directory of TFRecord or TSV splits, or `tfds:NAME`. Of tokenized
        input, TFRecords. Of a directory with `{SPAN}` in it, one span is taken.
      task: Names the columns and classes.
      paths: Where TFRecords are written. What was made of the same text before is
        used again.
      report: Called with what a person would want to know.
      span: The span to take; None takes the newest.

    Raises:
      UsageError: The source cannot be found or read.
    """
    if not spans.has_span(source):
        return _resolve(source, task, paths, report)
    directory, found = spans.find_span(source, span, report)
    try:
        return _resolve(directory, task, paths, report, found)
    except MissingSplitError as error:
        raise UsageError(
            f"{error}. It is span {found.number} of {source}: complete it, or take "
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
        return dataclasses.replace(_find_remote(source), span=span)
    else:
        files = tables.find_tables(source)
        if task.is_tokenized or not files:
            found = _find_as_they_are(source, task, has_text=bool(files))
            return dataclasses.replace(found, span=span)
        key = fingerprint.of_files(files.values())
    _refuse_tokenized(source, task)
    code = fingerprint.of_code(__name__)
    # The span counts, for a text that comes again in another one is another one's.
    number = "" if span is None else str(span.number)
    key = fingerprint.of_text(key, task.model_dump_json(), code, number)
    destination = paths.examples(key[:16])
    if span is not None:
        span = Span(span.number, str(destination), spans.SPAN)
        destination /= number
    # Its name is a hash of the content: what another run wrote there is the same.
    with contextlib.suppress(DestinationExistsError):
        prepare(source, str(destination), task, report)
    return dataclasses.replace(find_examples(str(destination)), span=span)


def prepare(
    source: str, destination: str, task: TaskConfig, report: Report = lambda _: None
) -> dict[str, int]:
    """Writes text as TFRecords, a folder a split.

    Args:
      source: A directory of TSV splits, or `tfds:NAME`.
      destination: A directory that does not exist yet; it appears when it is whole.
      task: Names the columns and classes.
      report: Called with what a person would want to know.

    Returns:
      The number of examples of each split.

    Raises:
      UsageError: The source cannot be read, a row is malformed, or the destination
        exists.
    """
    target = Path(destination)
    _refuse_existing(target)
    _refuse_tokenized(source, task)
    if source.startswith(tfds_source.PREFIX):
        found = tfds_source.open_tables(source, task, report)
    else:
        found = tables.open_tables(source, task, report)
    working = WorkingDirectory(target.with_name(f".{target.name}.incomplete"))
    working.open(wait=report)
    try:
        _refuse_existing(target)
        counts = {}
        for split, rows in found.items():
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


def _find_remote(source: str) -> ExamplesDirectory:
    import tensorflow as tf

    try:
        return find_examples(source)
    except tf.errors.OpError as error:
        raise UsageError(
            f"data {source} cannot be read: {str(error)[:200]}. Without a network or "
            "credentials for it, give a local copy with --data DIR"
        ) from error


def _find_as_they_are(
    source: str, task: TaskConfig, *, has_text: bool
) -> ExamplesDirectory:
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
