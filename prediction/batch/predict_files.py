"""Predicts the rows of files, and writes them to a directory."""

from __future__ import annotations

import contextlib
import dataclasses
import itertools
import json
import os
import time
from collections.abc import Sequence
from typing import Any

import pyarrow as pa
from apache_beam.io.filesystems import FileSystems
from apache_beam.options.pipeline_options import PipelineOptions, StandardOptions
from pyarrow import parquet

from contracts.errors import UsageError
from contracts.settings.data import DataConfig, FileFormat
from contracts.storage import uris
from contracts.versions.exported_model import SERVE_EXAMPLES
from ingest.examples import tf_examples
from ingest.rows import formats, readers
from ingest.rows.row_errors import Location, Row, RowError
from ingest.rows.row_file import RowFile
from prediction.batch import destination as destination_lib
from prediction.batch import execution, output_formats
from prediction.batch import job as job_lib
from prediction.batch.job import Job
from prediction.model_directory import find_model
from prediction.predictor import check_min_probability, example_columns
from prediction.saved_model.model_description import ModelDescription, describe_model
from prediction.texts import texts_of

_FIRST_ROWS = 100


@dataclasses.dataclass(frozen=True)
class BatchOptions:
    """How files are predicted.

    Attributes:
      beam_args: Beam's pipeline arguments.
      reading: The format of the files, and how they are read.
      output_format: None writes the format of the input, and Parquet for Arrow.
      batch_rows: Rows per call of the model.
      is_strict: Whether nothing is written if a row cannot be predicted.
      min_probability: As for `Predictor`.
    """

    beam_args: Sequence[str]
    reading: DataConfig = readers.DEFAULTS
    output_format: FileFormat | None = None
    batch_rows: int = 512
    is_strict: bool = False
    min_probability: float | None = None


@dataclasses.dataclass(frozen=True)
class Summary:
    """The result of a prediction of files, as in `summary.json`.

    Attributes:
      read: Rows that were read.
      predicted: Rows that were written with a prediction.
      refused: Rows that cannot be predicted.
      abstained: Rows that were written without a class, as it is too improbable.
      classes: The number of rows of each predicted class or label.
      mean_score: The mean of the predicted scores; None for classes and without rows.
      model: The directory of the SavedModel.
      version: The name of that directory.
      runner: Beam's runner.
      seconds: Duration of the prediction.
    """

    read: int
    predicted: int
    refused: int
    abstained: int
    classes: dict[str, int]
    mean_score: float | None
    model: str
    version: str
    runner: str
    seconds: float


def predict_files(
    model: str,
    source: str,
    destination: str,
    options: BatchOptions,
    progress: execution.Progress = lambda rows: None,
) -> Summary:
    """Predicts the rows of files with Beam, keeping their columns.

    Args:
      model: A SavedModel, or a directory of its versions.
      source: A file, a directory or a glob.
      destination: A new directory. It appears when it is complete.
      options: How they are predicted.
      progress: Called with the number of rows so far, if the runner reports it.

    Raises:
      UsageError: The destination has files, there is no model or no file, the files
        do not fit the model, or `is_strict` and a row was refused. Or the predictions
        are complete, but cannot be moved to the destination; then they are kept.
      RuntimeError: The pipeline failed. What it wrote is deleted, unless a remote job
        cannot be cancelled.
    """
    started = time.monotonic()
    name = destination.lower().removesuffix(".gz")
    if name.endswith(
        (*formats.SPREADSHEETS, ".txt", ".json", ".csv", ".tsv", ".jsonl")
    ):
        raise UsageError(
            "destination",
            destination,
            "a directory, whose name has no extension of a file",
            name="E-format-unknown",
        )
    target = destination_lib.create(destination)
    file_format, paths = readers.find_files(source, options.reading.format)
    directory = find_model(os.path.abspath(model) if uris.is_local(model) else model)
    job = _plan(describe_model(directory), file_format, paths, target, options)
    target.begin()
    with contextlib.ExitStack() as cleanup:
        cleanup.callback(target.abandon)
        execution.run(job, options.beam_args, progress, cleanup.pop_all)
        counts = _read_counts(job)
        refused = int(counts.get(job_lib.REFUSED, 0))
        if options.is_strict and refused:
            pattern = f"{job.path(job_lib.REFUSED)}-*"
            refusals = FileSystems.match([pattern])[0].metadata_list
            with FileSystems.open(refusals[0].path) as lines:
                rows = [json.loads(line) for line in itertools.islice(lines, 3)]
            shown = "; ".join(f"{r['file']}:{r['row']}: {r['reason']}" for r in rows)
            raise UsageError(
                "source",
                f"{refused} of {counts[job_lib.READ]} rows cannot be predicted: "
                f"{shown}",
                advice="leave `strict` out to write the other rows",
                name="E-rows-refused",
            )
        cleanup.pop_all()
    prefix = job_lib.CLASS_PREFIX
    predicted = int(counts.get(job_lib.PREDICTED, 0))
    score = counts.get(job_lib.SCORE)
    beam_options = PipelineOptions(list(options.beam_args)).view_as(StandardOptions)
    summary = Summary(
        read=int(counts.get(job_lib.READ, 0)),
        predicted=predicted,
        refused=refused,
        abstained=int(counts.get(job_lib.ABSTAINED, 0)),
        classes={
            name.removeprefix(prefix): int(number)
            for name, number in sorted(counts.items())
            if name.startswith(prefix)
        },
        mean_score=None if score is None else score / predicted,
        model=directory,
        version=os.path.basename(directory),
        runner=str(beam_options.runner).rpartition(".")[-1],
        seconds=round(time.monotonic() - started, 1),
    )
    content = json.dumps(dataclasses.asdict(summary), ensure_ascii=False, indent=2)
    target.finish(content.encode() + b"\n")
    return summary


def _plan(
    model: ModelDescription,
    file_format: FileFormat,
    paths: list[str],
    target: destination_lib.Destination,
    options: BatchOptions,
) -> Job:
    """Creates the job, and refuses it if none of the first rows can be predicted."""
    if file_format == formats.TFRECORD and not model.features:
        raise UsageError(
            "model",
            f"{model.directory} has no signature {SERVE_EXAMPLES}",
            advice="give text in .csv, .tsv, .jsonl or .parquet with `source`",
            name="E-format-unknown",
        )
    check_min_probability(
        options.min_probability, is_score=model.is_score, labels=model.labels
    )
    predicted = example_columns(is_score=model.is_score, labels=model.labels)
    files = [RowFile(path, file_format, options.reading) for path in paths]
    rows = itertools.chain.from_iterable(file.read() for file in files)
    first = list(itertools.islice(rows, _FIRST_ROWS))
    output_format = options.output_format or file_format
    if output_format == formats.ARROW:
        output_format = formats.PARQUET
    schema = None
    if file_format == output_format == formats.PARQUET:
        for path in paths:
            # The first file may be damaged.
            with FileSystems.open(path) as file, contextlib.suppress(pa.ArrowInvalid):
                # Metadata, which pandas adds, would be wrong with more columns.
                schema = parquet.read_schema(file).remove_metadata()
                break
    known = [row for row in map(_to_columns, first) if row is not None]
    if not known:
        columns = [] if first else files[0].read_columns()
        known = [dict.fromkeys(columns or model.columns, "a text")]
        if columns:
            try:
                texts_of(known[0], model.columns)
            except RowError as error:
                raise UsageError(
                    paths[0],
                    str(error),
                    advice="rename the column",
                    name="E-column-missing",
                ) from error
    try:
        serializer = output_formats.create(output_format, known, predicted, schema)
    except RowError as error:
        raise UsageError(
            "output_format",
            f"the names of the columns: {error}",
            advice="rename the column, or use `output_format=jsonl`",
            name="E-prediction-columns",
        ) from error
    is_gzip = paths[0].endswith(".gz") and output_format != formats.PARQUET
    job = Job(
        model=model,
        file_format=file_format,
        paths=paths,
        settings=options.reading,
        serializer=serializer,
        extension=f".{output_format}{'.gz' if is_gzip else ''}",
        directory=target.working,
        suffix=target.suffix,
        batch_rows=options.batch_rows,
        min_probability=options.min_probability,
    )
    refusals = []
    for location, row in first:
        try:
            job.to_request(row)
            job.serialize(row, predicted)
        except RowError as error:
            refusals.append(f"{location}: {error}")
    if refusals and len(refusals) == len(first):
        number = "first row" if len(first) == 1 else f"first {len(first)} rows"
        raise UsageError(
            "source",
            f"none of the {number} can be predicted: {refusals[0]}",
            advice="correct the rows, or give the model that takes them",
            name="E-rows-refused",
        )
    return job


def _to_columns(located: tuple[Location, Row]) -> dict[str, Any] | None:
    _, row = located
    try:
        row = tf_examples.to_row(row) if isinstance(row, bytes) else row
    except RowError:
        return None
    return row if isinstance(row, dict) else None


def _read_counts(job: Job) -> dict[str, float]:
    (file,) = FileSystems.match([f"{job.path(job_lib.COUNTS)}-*"])[0].metadata_list
    with FileSystems.open(file.path) as lines:
        counts = dict(json.loads(line) for line in lines)
    FileSystems.delete([file.path])
    read, predicted, refused = (
        counts.get(name, 0)
        for name in (job_lib.READ, job_lib.PREDICTED, job_lib.REFUSED)
    )
    if read != predicted + refused:
        raise RuntimeError(
            f"{read} rows were read, but {predicted} predicted and {refused} refused: "
            "the Beam job lost rows"
        )
    return counts
