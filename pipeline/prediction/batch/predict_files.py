"""Predicts files into a directory."""

from __future__ import annotations

import contextlib
import dataclasses
import itertools
import json
import os
import time
from collections.abc import Sequence
from typing import Any

from apache_beam.io.filesystems import FileSystems
from apache_beam.options.pipeline_options import PipelineOptions, StandardOptions

from pipeline.beam import IN_PROCESS
from pipeline.config.errors import UsageError
from pipeline.prediction import predictor
from pipeline.prediction.batch import destination as destination_lib
from pipeline.prediction.batch import execution, sinks, sources, tf_examples
from pipeline.prediction.batch import job as job_lib
from pipeline.prediction.batch.job import Job, Tally
from pipeline.prediction.batch.rows import RowError
from pipeline.prediction.batch.saved_model_handler import Description, describe

BATCH_ROWS = 512

_FIRST_ROWS = 100
_SHOWN = 3


@dataclasses.dataclass(frozen=True)
class Summary(Tally):
    """What a prediction of files did; `summary.json` has it.

    Attributes:
      model: The directory of the SavedModel.
      version: The name of that directory.
      runner: Beam's.
      seconds: From the start to the end.
    """

    model: str
    version: str
    runner: str
    seconds: float


def predict_files(
    model: str,
    source: str,
    destination: str,
    *,
    beam_args: Sequence[str] = IN_PROCESS,
    input_format: str | None = None,
    output_format: str | None = None,
    batch_rows: int = BATCH_ROWS,
    is_strict: bool = False,
    progress: execution.Progress = lambda rows: None,
) -> Summary:
    """Predicts the rows of files with Beam, each row keeping its columns.

    Args:
      model: A SavedModel, or a directory of its versions.
      source: A file, a directory or a glob.
      destination: A new directory. It appears when it is whole.
      beam_args: Beam's pipeline arguments.
      input_format: `tsv`, `jsonl`, `parquet` or `tfrecord`; None goes by the names of
        the files.
      output_format: One of the same; None is that of the input.
      batch_rows: Rows that the model is asked at a time.
      is_strict: Whether a row that cannot be predicted stops the run.
      progress: Told the rows so far, where the runner tells.

    Raises:
      UsageError: Something is at the destination, there is no model or no file, the
        files do not fit the model, or `is_strict` and a row was refused. Or the
        predictions are complete, but cannot be moved to the destination; then they
        are kept.
      RuntimeError: The pipeline failed. What it wrote is deleted, unless a remote job
        cannot be cancelled.
    """
    started = time.monotonic()
    target = destination_lib.create(destination)
    file_format, paths = sources.find_files(source, input_format)
    found = predictor.find_model(model)
    description = describe(found if "://" in found else os.path.abspath(found))
    job = _plan(description, file_format, paths, output_format, target, batch_rows)
    target.begin()
    with contextlib.ExitStack() as cleanup:
        cleanup.callback(target.abandon)
        execution.run(job, beam_args, progress, cleanup.pop_all)
        tally = _read_tally(job)
        if is_strict and tally.refused:
            raise UsageError(
                f"{tally.refused} of {tally.read} rows cannot be predicted, and with "
                f"--strict nothing is written: {_first_refusals(job)}"
            )
        cleanup.pop_all()
    options = PipelineOptions(list(beam_args)).view_as(StandardOptions)
    summary = Summary(
        **dataclasses.asdict(tally),
        model=description.directory,
        version=os.path.basename(description.directory),
        runner=str(options.runner).rpartition(".")[-1],
        seconds=round(time.monotonic() - started, 1),
    )
    content = json.dumps(dataclasses.asdict(summary), ensure_ascii=False, indent=2)
    target.finish(content.encode() + b"\n")
    return summary


def _plan(
    model: Description,
    file_format: str,
    paths: list[str],
    output_format: str | None,
    target: destination_lib.Destination,
    batch_rows: int,
) -> Job:
    """Settles what is written, and refuses what the first rows show to be wrong."""
    if file_format == sources.TFRECORD and not model.features:
        raise UsageError(
            f"--model {model.directory} has no signature serve_examples; give text in "
            ".tsv, .jsonl or .parquet"
        )
    output_format = output_format or file_format
    predicted: dict[str, Any] = {"prediction": "", "probability": 0.0}
    if model.is_score:
        predicted = {"prediction": 0.0}
    parser = sources.Parser(file_format)
    records = itertools.islice(sources.read_first(file_format, paths), _FIRST_ROWS)
    first = [parser.parse(*record) for record in records]
    rows = [_as_dict(row) for _, row in first]
    known = [row for row in rows if row is not None]
    columns = {name: None for row in known for name in row}
    schema = None
    if file_format == output_format == sources.PARQUET:
        schema = sinks.read_schema(paths)
    sink = sinks.create(
        output_format,
        is_gzip=paths[0].endswith(".gz"),
        rows=known,
        columns=[*columns] or list(model.columns),
        predicted=predicted,
        schema=schema,
    )
    job = Job(
        model, file_format, paths, sink, target.working, target.suffix, batch_rows
    )
    refusals = []
    for place, row in first:
        try:
            job.request(row)
            job.encode(row, predicted)
        except RowError as error:
            refusals.append(f"{place}: {error}")
    if refusals and len(refusals) == len(first):
        number = "first row" if len(first) == 1 else f"first {len(first)} rows"
        raise UsageError(f"none of the {number} can be predicted. {refusals[0]}")
    return job


def _as_dict(row: Any) -> dict[str, Any] | None:
    if isinstance(row, RowError):
        return None
    if isinstance(row, dict):
        return row
    try:
        return tf_examples.to_row(row)
    except RowError:
        return None


def _read_tally(job: Job) -> Tally:
    (file,) = FileSystems.match([f"{job.path(job_lib.TALLY)}-*"])[0].metadata_list
    with FileSystems.open(file.path) as content:
        tally = Tally.of(json.loads(content.read()))
    FileSystems.delete([file.path])
    if tally.read != tally.predicted + tally.refused:
        raise RuntimeError(
            f"{tally.read} rows were read, but {tally.predicted} predicted and "
            f"{tally.refused} refused: rows were lost on the way"
        )
    return tally


def _first_refusals(job: Job) -> str:
    files = FileSystems.match([f"{job.path(job_lib.REFUSED)}-*"])[0].metadata_list
    with FileSystems.open(files[0].path) as content:
        rows = [json.loads(line) for line in itertools.islice(content, _SHOWN)]
    return "; ".join(f"{r['file']}, byte {r['offset']}: {r['reason']}" for r in rows)
