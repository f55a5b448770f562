"""Predicts the rows of a file, and writes them to a file in the same order."""

from __future__ import annotations

import contextlib
import functools
import gzip
import os
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager
from pathlib import Path
from typing import IO, Any, NamedTuple, cast

from contracts.errors import UsageError
from contracts.settings.data import DataConfig
from contracts.storage import files, uris
from ingest import output_directory
from ingest.rows import formats, readers
from ingest.rows.row_errors import Location, Row, RowError
from ingest.rows.row_file import RowFile
from prediction import serializers
from prediction.predictor import (
    PREDICTION,
    Predictor,
    add_columns,
    example_columns,
    split_batches,
)
from prediction.texts import texts_of

WRITTEN_FORMATS = (formats.CSV, formats.TSV, formats.JSONL)


class Counts(NamedTuple):
    """The rows of a predicted file.

    Attributes:
      rows: All of them.
      abstained: Those without a class, as it is too improbable.
    """

    rows: int
    abstained: int


def predict_file(
    find: Callable[[], str],
    load: Callable[[str], Predictor],
    source: str,
    destination: str,
    settings: DataConfig = readers.DEFAULTS,
    *,
    can_write_directories: bool = True,
) -> Counts:
    """Predicts the rows of a file, keeping their columns and their order.

    Args:
      find: Returns the directory of the model. It is called when the arguments are
        checked.
      load: Loads the model of a directory.
      source: A file of text, gzipped or not.
      destination: `.csv`, `.tsv` or `.jsonl`, gzipped with `.gz`: the columns of the
        source, and those of `Prediction.as_columns`; see `predictor.add_columns`.
        `prediction` of a row without a class is empty, or null in JSON. The file
        appears when it is complete.
      settings: How the source is read.
      can_write_directories: Whether the caller also predicts into a directory, which
        the advice of errors names then.

    Raises:
      UsageError: There is no model, or a row cannot be read, predicted or written.
        The destination cannot be written. Or it cannot be replaced; the predictions
        are kept next to it.
    """
    for name, path in (("source", source), ("destination", destination)):
        if not uris.is_local(path):
            raise UsageError(
                name,
                path,
                "a local file",
                "or name a directory with `destination`: then both may be remote"
                if can_write_directories
                else None,
                name="E-local-path-required",
            )
    if not os.path.isfile(source):
        raise UsageError("source", source, "a file", name="E-data-not-found")
    input_format = settings.format or formats.format_of(source)
    if input_format is None or input_format == formats.TFRECORD:
        raise UsageError(
            "source",
            source,
            "a .csv, .tsv, .jsonl, .parquet or .arrow file"
            + (" for one output file" if can_write_directories else ""),
            "set the format of another name with `input_format`"
            + (
                ", or name a directory with `destination`"
                if can_write_directories
                else ""
            ),
            name="E-format-unknown",
        )
    file_format = formats.format_of(destination)
    if file_format not in WRITTEN_FORMATS:
        raise UsageError(
            "destination",
            destination,
            ".csv, .tsv and .jsonl, and .gz after them",
            name="E-format-unknown",
        )
    refusing = functools.partial(
        _usage_errors,
        advice="name a directory with `destination` to predict the other rows"
        if can_write_directories
        else "correct the row, or remove it",
    )
    source_file = RowFile(source, input_format, settings)
    directory = find()
    target = os.path.realpath(destination)  # of a symbolic link, which is kept
    output_directory.make_for_file(Path(target), "destination")
    predictor = load(directory)
    predictions = _predict(predictor, source_file.read(), refusing)
    serializer: serializers.JsonLines | serializers.Table | None = None
    count = abstained = 0
    with contextlib.ExitStack() as stack:
        incomplete = stack.enter_context(files.incomplete_beside(target))
        file: IO[bytes] = stack.enter_context(open(incomplete, "wb"))
        if destination.lower().endswith(".gz"):
            packed = gzip.GzipFile("", "wb", fileobj=file)  # with no name of the file
            file = cast(IO[bytes], stack.enter_context(packed))
        for location, row, predicted in predictions:
            count += 1
            abstained += predicted[PREDICTION] is None
            columns = add_columns(row, predicted)
            with refusing(location):
                if serializer is None and file_format in formats.DELIMITED:
                    serializer = serializers.Table(columns, file_format)
                    file.write(serializer.header + b"\n")
                serializer = serializer or serializers.JsonLines()
                file.write(serializer.serialize(columns) + b"\n")
        names = source_file.read_columns() if not count else []
        if names and file_format in formats.DELIMITED:
            with refusing(Location(source, 1)):
                texts_of(dict.fromkeys(names, "a text"), predictor.columns)
                predicted = example_columns(
                    is_score=predictor.is_score, labels=predictor.labels
                )
                columns = add_columns(dict.fromkeys(names), predicted)
                table = serializers.Table(columns, file_format)
                file.write(table.header + b"\n")
    try:
        os.replace(incomplete, target)
    except OSError as error:
        raise UsageError(
            "destination",
            f"{destination} cannot be replaced ({error})",
            advice=f"take the predictions from {incomplete}",
            name="E-storage-failed",
        ) from error
    return Counts(count, abstained)


def _predict(
    predictor: Predictor,
    rows: Iterator[tuple[Location, Row]],
    refusing: Callable[[Location], AbstractContextManager[None]],
) -> Iterator[tuple[Location, dict[str, Any], dict[str, Any]]]:
    """Yields locations, rows, and the columns of their predictions."""
    for batch in split_batches(rows):
        texts = []
        for location, row in batch:
            with refusing(location):
                if isinstance(row, RowError):
                    raise row
                texts.append(texts_of(row, predictor.columns))
        predictions = predictor.predict_batch(texts, predictor.columns)
        for (location, row), prediction in zip(batch, predictions, strict=True):
            yield location, row, prediction.as_columns()


@contextlib.contextmanager
def _usage_errors(location: Location, advice: str) -> Iterator[None]:
    try:
        yield
    except RowError as error:
        raise UsageError(
            str(location),
            str(error),
            advice=advice,
            name="E-rows-refused",
        ) from error
