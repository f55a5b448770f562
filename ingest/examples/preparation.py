"""Prepares the Examples of a run from any source."""

from __future__ import annotations

import contextlib
import dataclasses
import os
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

from contracts import fingerprint, wording, written_files
from contracts.errors import UsageError
from contracts.settings.data import SPAN, TEST, TFDS_PREFIX, DataConfig
from contracts.storage import files as storage
from contracts.storage import uris
from contracts.task.definition import (
    NOT_TRAINED,
    TOKENIZED_FEATURES,
    TRAIN_SPLIT,
    TaskConfig,
)
from ingest.examples import (
    sources,
    spans,
    splits,
    splitting,
    text_source,
    tf_examples,
    tfds_source,
)
from ingest.examples.bad_rows import SKIPPED_FILE, BadRows
from ingest.examples.data_card import (
    DataCard,
    SplitCard,
    describe_change,
    describe_splitting,
    read_card,
)
from ingest.examples.halving import Halving
from ingest.examples.label_parser import NotAnIndexError
from ingest.examples.spans import Span
from ingest.examples.splits import GoodRow, MissingSplitError, Report
from ingest.examples.tfrecords import (
    ExamplesDirectory,
    find_examples,
    list_examples,
    write_records,
)
from ingest.remote import remote_errors
from ingest.rows.formats import TFRECORD
from ingest.rows.readers import DEFAULTS
from ingest.rows.row_errors import RowError
from ingest.rows.row_file import RowFile
from ingest.working_directory import (
    DestinationExistsError,
    WorkingDirectory,
    delete_damaged,
    refuse_existing,
)

_ROWS_PER_REPORT = 250_000


def resolve_examples(
    source: str,
    task: TaskConfig,
    directory_for: Callable[[str], Path],
    report: Report = lambda _: None,
    settings: DataConfig = DEFAULTS,
    halving: Halving | None = None,
) -> ExamplesDirectory:
    """Returns the Examples of a run; other formats are written as TFRecords first.

    Args:
      source: A file or a directory, see `sources.find_source`, TFRecord splits, or
        `tfds:NAME`. Tokenized input must be TFRecords. If the directory has `{SPAN}`
        in its path, one span is used.
      task: Names the columns and classes.
      directory_for: Returns the directory of TFRecords by the fingerprint of their
        source. Those of the same source are reused.
      report: Called with a line for the user.
      settings: How the source is read and split, and the number of the span.
      halving: When `eval` is halved, if there is no `test`; None: never. TFRecords are
        used as they are.

    Raises:
      UsageError: The source does not exist or cannot be read.
    """
    if not source.startswith(TFDS_PREFIX):
        storage.check_remote(source)
    if not spans.has_span(source):
        return _resolve(source, task, directory_for, report, settings, halving)
    directory, span = spans.find_span(source, settings.span, report)
    try:
        return _resolve(directory, task, directory_for, report, settings, halving, span)
    except MissingSplitError as error:
        raise UsageError(
            error.setting,
            f"{error.got}; it is span {span.number} of {source}",
            advice="complete it, or use another span with `data.span=N`",
            name=error.name,
        ) from error


def _resolve(
    source: str,
    task: TaskConfig,
    directory_for: Callable[[str], Path],
    report: Report,
    settings: DataConfig,
    halving: Halving | None,
    span: Span | None = None,
) -> ExamplesDirectory:
    files = None
    if source.startswith(TFDS_PREFIX):
        key = source
    elif not uris.is_local(source):
        with remote_errors.usage_errors(source, "`data.source=DIR`"):
            return _use_records(source, task, settings, span)
    else:
        files = sources.find_source(source, settings)
        if task.is_tokenized or not files.files:
            try:
                return _use_records(source, task, settings, span)
            except MissingSplitError:
                if files.files:
                    _refuse_tokenized(source, task)
                raise
        key = files.sha256
    _refuse_tokenized(source, task)
    code = fingerprint.of_code(__name__)
    # Key on the span: equal text in two spans yields two sets of Examples.
    number = "" if span is None else str(span.number)
    # The rows are the same.
    reading = settings.model_dump_json(exclude={"span", "source"})
    halves = halving is not None and _is_halved(source, task, settings, files, halving)
    kind = "halved" if halves else ""
    key = fingerprint.of_text(
        key, task.model_dump_json(exclude=NOT_TRAINED), reading, code, number, kind
    )
    destination = directory_for(key)
    if span is not None:
        span = Span(span.number, str(destination), SPAN)
        destination /= number
    delete_damaged(destination, report)
    before = _find_last_card(source, destination.parent) if span is None else None
    # The name is a hash of the content: an existing directory has the same files.
    with contextlib.suppress(DestinationExistsError):
        prepare(source, str(destination), task, report, settings, files, halves)
    examples = find_examples(str(destination))
    if span is None:
        os.utime(destination)  # those of the last run are the newest
        if before and (change := describe_change(before, examples.card)):
            report(change)
    # An earlier run may have read the same rows from another path.
    card = examples.card.model_copy(update={"source": source})
    return dataclasses.replace(examples, card=card, span=span)


def _find_last_card(source: str, directory: Path) -> DataCard | None:
    """Returns the card of the Examples of the last run of a source."""
    paths = sorted(directory.glob("*"), key=os.path.getmtime, reverse=True)
    cards = map(read_card, map(str, paths))
    return next((card for card in cards if card and card.source == source), None)


def _is_halved(
    source: str,
    task: TaskConfig,
    settings: DataConfig,
    files: sources.Source | None,
    halving: Halving,
) -> bool:
    """Reads `eval`, if there is no `test`, and returns whether it is halved."""
    if files is not None:
        read = {name: f for name, f in files.files.items() if name != TRAIN_SPLIT}
        files = dataclasses.replace(files, files=read)
    with (
        tempfile.TemporaryDirectory() as directory,
        # The rows are read again, and their faults logged then.
        BadRows(settings.on_bad_rows, Path(directory), logs=False) as bad_rows,
    ):
        try:
            opened = _open(source, files, task, settings, lambda _: None, bad_rows)
            if opened.get(TEST) is not None:
                return False
            completed = splitting.complete_splits(
                opened, bad_rows, task, settings, halving
            )
        except NotAnIndexError:
            task = task.model_copy(update={"labels": "name"})
            return _is_halved(source, task, settings, files, halving)
    return completed.get(TEST) is not None


def _open(
    source: str, files: sources.Source | None, *arguments: Any
) -> dict[str, Iterator[GoodRow] | None]:
    if files is None:
        return tfds_source.open_splits(source, *arguments)
    return text_source.open_splits(files, *arguments)


def prepare(
    source: str,
    destination: str,
    task: TaskConfig,
    report: Report = lambda _: None,
    settings: DataConfig = DEFAULTS,
    files: sources.Source | None = None,
    halves: bool = False,
) -> dict[str, int]:
    """Writes the rows of a source as TFRecords, a folder for each split.

    Args:
      source: A file or a directory, see `sources.find_source`, or `tfds:NAME`.
      destination: A new directory. It appears when it is complete.
      task: Names the columns and classes.
      report: Called with a line for the user.
      settings: How the source is read and split, and what happens to bad rows.
      files: The source's files, if they were found already.
      halves: Whether `eval` is halved. The source has no labelled `test`.

    Returns:
      The number of examples of each split.

    Raises:
      UsageError: The source cannot be read, a row is malformed, or the destination
        exists.
    """
    target = Path(destination)
    refuse_existing(target)
    _refuse_tokenized(source, task)
    card = DataCard(
        source=source,
        on_bad_rows=settings.on_bad_rows,
        license=settings.license,
        is_halved=halves,
    )
    if not source.startswith(TFDS_PREFIX):
        files = files or sources.find_source(source, settings)
        if files.has_splits or not files.files:
            splits.require_splits(source, filter(None, files.files), "train.csv")
        else:
            card.splitting = describe_splitting(settings)
        card.origin = read_card(source)
    with WorkingDirectory.creating(target, report) as working:
        arguments = settings, report, files, card, working.path
        try:
            bad_rows = _write_splits(source, task, *arguments)
        except NotAnIndexError as error:
            report(
                f"the {task.label_column} {error} is not the index of a class, so that "
                "every label is read as a name"
            )
            working.open()  # which deletes what was written
            task = task.model_copy(update={"labels": "name"})
            bad_rows = _write_splits(source, task, *arguments)
        for name, split in card.splits.items():
            if not split.rows:
                raise UsageError(
                    source,
                    f"no rows are left in the split {name}",
                    advice="add some",
                    name="E-split-missing",
                )
            report(f"{name}: {wording.count(split.rows, 'example')}")
            if split.left_out:
                count = wording.count(split.left_out, "malformed row")
                report(f"{name}: {count} left out, as TFDS does")
        if bad_rows.counts:
            card.skipped_file = str(target / SKIPPED_FILE)
            skipped = sum(split.bad for split in card.splits.values())
            count = wording.count(skipped, "bad row")
            report(f"{count} skipped, with reasons in {card.skipped_file}")
        card.write(working.path)
        written_files.record(working.path)
        working.publish(target)
    return {name: split.rows for name, split in card.splits.items()}


def _write_splits(
    source: str,
    task: TaskConfig,
    settings: DataConfig,
    report: Report,
    files: sources.Source | None,
    card: DataCard,
    directory: Path,
) -> BadRows:
    """Writes the splits, completes their card, and returns the skipped rows."""
    with BadRows(settings.on_bad_rows, directory) as bad_rows:
        opened = _open(source, files, task, settings, report, bad_rows)
        opened = splitting.complete_splits(
            opened, bad_rows, task, settings, card.is_halved
        )
        card.files = [] if files is None else files.describe_reading()
        for line in card.files:
            report(line)
        for name, rows in opened.items():
            if rows is None:
                continue  # the split has no labels
            reported = _show_progress(name, rows, report)
            card.splits[name] = SplitCard(
                rows=write_records(reported, directory / name),
                bad=bad_rows.counts[name],
                left_out=bad_rows.left_out[name],
            )
        card.fingerprint = None if files is None else files.sha256
        bad_rows.refuse(card)
    return bad_rows


def _show_progress(
    split: str, rows: Iterator[GoodRow], report: Report
) -> Iterator[GoodRow]:
    for number, row in enumerate(rows):
        if number and number % _ROWS_PER_REPORT == 0:
            report(f"{split}: {wording.count(number, 'row')} so far")
        yield row


def _use_records(
    source: str, task: TaskConfig, settings: DataConfig, span: Span | None
) -> ExamplesDirectory:
    """Returns TFRecords that a run reads without a conversion."""
    records = find_examples(source, settings)
    sha256, counts = None, {}
    if uris.is_local(source):
        paths = {split: list_examples(records, split) for split in records.patterns}
        counts = {split: len(paths[split]) for split in paths}
        sha256 = fingerprint.of_hashes(
            {
                path: _check_records(path, task)
                for split in paths
                for path in paths[split]
            }
        )
    update = {
        "fingerprint": records.card.fingerprint or sha256,
        "license": settings.license or records.card.license,
    }
    card = records.card.model_copy(update=update)
    return dataclasses.replace(
        records, card=card, span=span, fingerprint=sha256, counts=counts
    )


def _check_records(path: str, task: TaskConfig) -> str:
    """Returns the hash of a TFRecord file, after all of its Examples were read.

    ExampleGen would fail on a damaged record without its location, and takes a gzip
    file that is cut between two records for a complete one. Several labels are checked
    here too, because files of other formats have them in other columns.

    Raises:
      UsageError: A record is damaged, or is not an Example.
    """
    file = RowFile(path, TFRECORD)
    for location, record in file.read():
        try:
            if isinstance(record, RowError):
                raise record
            assert isinstance(record, bytes)
            features = tf_examples.parse(record).features.feature
            if task.label_kind.has_flags:
                label = task.label_column
                # Reading a missing key of a protobuf map would add it.
                flags = features[label].int64_list.value if label in features else ()
                if task.label_kind.read(flags) is None:
                    raise UsageError(
                        str(location),
                        f"{label} is {[*flags]!s:.80}",
                        "an int64 feature with 0 or 1 for each of the "
                        f"{task.outputs} task.classes, in their order",
                        name="E-rows-refused",
                    )
        except RowError as error:
            raise UsageError(
                str(location),
                str(error),
                advice="copy the file again, or write it anew",
                name="E-file-damaged",
            ) from error
    return file.sha256


def _refuse_tokenized(source: str, task: TaskConfig) -> None:
    if task.is_tokenized:
        raise UsageError(
            "task.input",
            f"{task.input}, but {source} is text",
            advice="name a directory of TFRecords that have "
            f"{', '.join(TOKENIZED_FEATURES)} and {task.label_column} with "
            "`data.source`, or use `task.input=text`",
            name="E-format-unknown",
        )
