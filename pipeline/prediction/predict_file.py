"""Predicts a file into a file, in the order of its rows."""

from __future__ import annotations

import contextlib
import os
from collections.abc import Iterator
from typing import IO, Any

from modules import files, uris
from pipeline.config.errors import UsageError
from pipeline.config.sections import DataConfig, FileFormat
from pipeline.inputs.rows import formats, readers
from pipeline.inputs.rows.row_errors import Location, Row, RowError
from pipeline.inputs.rows.row_file import RowFile
from pipeline.prediction import serializers
from pipeline.prediction.model_description import texts_of
from pipeline.prediction.predictor import Predictor, find_model, split_batches

_OUTPUT_FORMATS = (formats.CSV, formats.TSV, formats.JSONL)


def predict_file(
    model: str,
    source: str,
    destination: str,
    settings: DataConfig = readers.DEFAULTS,
) -> int:
    """Predicts the rows of a file, keeping their columns and their order.

    Args:
      model: A SavedModel, or a directory of its versions.
      source: A file of text, gzipped or not.
      destination: `.csv`, `.tsv` or `.jsonl`: the columns of the source, `prediction`
        and, for classes, `probability`. It appears when it is complete.
      settings: How the source is read.

    Returns:
      The number of rows.

    Raises:
      UsageError: There is no SavedModel, or a row cannot be read, predicted or written;
        or the destination cannot be replaced, and the predictions are kept beside it.
    """
    for option, path in (("--input", source), ("--output", destination)):
        if not uris.is_local(path):
            raise UsageError(
                f"{option} {path}: only a local file is predicted into a local file; "
                "into a directory (--output DIR) both may be remote"
            )
    if not os.path.isfile(source):
        raise UsageError(f"--input {source} is not a file")
    input_format = settings.format or formats.format_of(source)
    if input_format is None or input_format == formats.TFRECORD:
        raise UsageError(
            f"--input {source}: into one file, .csv, .tsv, .jsonl, .parquet and .arrow "
            "can be predicted; set another name's format with --format, or name a "
            "directory with --output"
        )
    file_format = formats.format_of(destination)
    if file_format not in _OUTPUT_FORMATS or destination.endswith(".gz"):
        raise UsageError(f"--output {destination}: allowed are .csv, .tsv and .jsonl")
    rows = RowFile(source, input_format, settings).read()
    predictions = _predict(Predictor(find_model(model)), rows)
    target = os.path.realpath(destination)  # a symbolic link is kept
    files.make_directory(os.path.dirname(target))
    with files.incomplete_beside(target) as incomplete, open(incomplete, "wb") as file:
        count = _write(file, file_format, predictions)
    try:
        os.replace(incomplete, target)
    except OSError as error:
        raise UsageError(
            f"all rows are predicted, but --output {destination} cannot be replaced "
            f"({error}); the predictions are in {incomplete}"
        ) from error
    return count


def _predict(
    predictor: Predictor, rows: Iterator[tuple[Location, Row]]
) -> Iterator[tuple[Location, dict[str, Any], dict[str, Any]]]:
    """Yields locations, rows, and the columns of their predictions."""
    for batch in split_batches(rows):
        texts = []
        for location, row in batch:
            with _usage_errors(location):
                if isinstance(row, RowError):
                    raise row
                texts.append(texts_of(row, predictor.columns))
        predictions = predictor.predict_batch(texts, predictor.columns)
        for (location, row), prediction in zip(batch, predictions, strict=True):
            yield location, row, prediction.as_columns()


def _write(
    file: IO[bytes],
    file_format: FileFormat,
    predictions: Iterator[tuple[Location, dict[str, Any], dict[str, Any]]],
) -> int:
    serializer: serializers.JsonLines | serializers.Table | None = None
    count = 0
    for location, row, predicted in predictions:
        count += 1
        with _usage_errors(location):
            if serializer is None and file_format in formats.DELIMITED:
                serializer = serializers.Table({**row, **predicted}, file_format)
                file.write(serializer.header + b"\n")
            serializer = serializer or serializers.JsonLines()
            file.write(serializer.serialize({**row, **predicted}) + b"\n")
    return count


@contextlib.contextmanager
def _usage_errors(location: Location) -> Iterator[None]:
    try:
        yield
    except RowError as error:
        raise UsageError(
            f"{location}: {error}. Into a directory (--output DIR) the other rows are "
            "predicted"
        ) from error
