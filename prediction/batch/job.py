"""The Beam pipeline from files to predictions, refused rows and counts."""

from __future__ import annotations

import dataclasses
import json
from collections.abc import Iterator
from typing import Any

import apache_beam as beam
from apache_beam.ml.inference.base import KeyedModelHandler, RunInference

from contracts.settings.data import DataConfig, FileFormat
from ingest.examples import tf_examples
from ingest.rows import formats
from ingest.rows.row_errors import Location, Row, RowError
from ingest.rows.row_file import RowFile
from prediction.batch import output_formats
from prediction.batch.saved_model_handler import SavedModelHandler
from prediction.predictor import PREDICTION, add_columns, rename_taken
from prediction.saved_model.model_description import ModelDescription, check_features
from prediction.serializers import Table
from prediction.texts import texts_of

PREDICTIONS = "predictions"
REFUSED = "refused"
COUNTS = "counts"
ROWS_METRIC = "predicted_rows"

READ = "read"
PREDICTED = "predicted"
ABSTAINED = "abstained"
SCORE = "score"
CLASS_PREFIX = "class "

_VALUES = "values"  # the main output of a DoFn
_ROWS = beam.metrics.Metrics.counter(COUNTS, ROWS_METRIC)


@dataclasses.dataclass(frozen=True)
class Job:
    """A prediction of files.

    Attributes:
      model: The model.
      file_format: Format of the input.
      paths: The input files.
      settings: How they are read.
      serializer: Serializes the predicted rows.
      extension: Extension of the files of predictions.
      directory: Where predictions, refused rows and counts are written.
      suffix: Comes before the shard number in the names of these files.
      batch_rows: Rows per call of the model.
      min_probability: As for `Predictor`.
    """

    model: ModelDescription
    file_format: FileFormat
    paths: list[str]
    settings: DataConfig
    serializer: output_formats.RowSerializer
    extension: str
    directory: str
    suffix: str
    batch_rows: int
    min_probability: float | None

    @property
    def takes_examples(self) -> bool:
        """Whether the model gets serialized `tf.Example`s."""
        return self.file_format == formats.TFRECORD

    def path(self, name: str) -> str:
        """Returns the prefix of the paths of a kind of output."""
        return f"{self.directory}/{name}{self.suffix}"

    def to_request(self, row: Row) -> tuple[str, ...] | bytes:
        """Returns the model's input for a row.

        Raises:
          RowError: The row lacks an input of the model.
        """
        if isinstance(row, RowError):
            raise row
        if isinstance(row, dict):
            return texts_of(row, self.model.columns)
        check_features(row, self.model.features)
        return row

    def serialize(self, row: Any, predicted: dict[str, Any]) -> Any:
        """Returns a row with its prediction, in the form that Beam's sink takes.

        Raises:
          RowError: The format cannot hold the row.
        """
        if isinstance(row, bytes):
            if isinstance(self.serializer, output_formats.Examples):
                example = tf_examples.parse(row)
                features = example.features.feature
                for name, new in rename_taken(features, predicted).items():
                    features[new].CopyFrom(features[name])
                return tf_examples.from_row(predicted, example.SerializeToString())
            row = tf_examples.to_row(row)
        return self.serializer.serialize(add_columns(row, predicted))


def build(pipeline: beam.Pipeline, job: Job) -> None:
    """Adds the transforms of a job to a pipeline.

    One worker reads a whole file. Beam's sources would split it, but they do not report
    the location of a row, and fail on a damaged one. Reading takes a small part of the
    time, and all workers predict the rows of a file.
    """
    requests = (
        pipeline
        | "Paths" >> beam.Create(job.paths)
        # With Reshuffle instead, Flink would ignore the Reshuffle of SpreadRows.
        | "SpreadFiles" >> beam.Distinct()
        | "Read" >> beam.FlatMap(_read, job).with_outputs(REFUSED, COUNTS, main=_VALUES)
    )
    handler = SavedModelHandler(
        job.model,
        job.min_probability,
        batch_rows=job.batch_rows,
        takes_examples=job.takes_examples,
    )
    predicted = (
        requests[_VALUES]
        | "SpreadRows" >> beam.Reshuffle()
        | "Predict" >> RunInference(KeyedModelHandler(handler))
        | "Serialize"
        >> beam.FlatMap(_serialize, job).with_outputs(REFUSED, COUNTS, main=_VALUES)
    )
    predicted[_VALUES] | "Write" >> _write_rows(job)
    refused = (requests[REFUSED], predicted[REFUSED]) | "Refused" >> beam.Flatten()
    (
        refused
        | "RefusedToJson" >> beam.Map(json.dumps, ensure_ascii=False)
        | "WriteRefused"
        >> beam.io.WriteToText(
            job.path(REFUSED), file_name_suffix=".jsonl", skip_if_empty=True
        )
    )
    (
        (
            requests[COUNTS],
            predicted[COUNTS],
            refused | "CountRefused" >> beam.Map(lambda _: (REFUSED, 1)),
        )
        | "Counts" >> beam.Flatten()
        | "Sum" >> beam.CombinePerKey(sum)
        | "CountsToJson" >> beam.Map(json.dumps)
        | "WriteCounts" >> beam.io.WriteToText(job.path(COUNTS), num_shards=1)
    )


def _write_rows(job: Job) -> beam.PTransform:
    prefix, serializer = job.path(PREDICTIONS), job.serializer
    if isinstance(serializer, output_formats.Parquet):
        return beam.io.WriteToParquet(
            prefix, serializer.schema, file_name_suffix=job.extension, codec="snappy"
        )
    if isinstance(serializer, output_formats.Examples):
        return beam.io.WriteToTFRecord(prefix, file_name_suffix=job.extension)
    return beam.io.WriteToText(
        prefix,
        file_name_suffix=job.extension,
        coder=beam.coders.BytesCoder(),
        header=serializer.header if isinstance(serializer, Table) else None,
    )


def _read(path: str, job: Job) -> Iterator[Any]:
    count = 0
    for location, row in RowFile(path, job.file_format, job.settings).read():
        count += 1
        try:
            request = job.to_request(row)
        except RowError as error:
            yield _refuse(location, error)
        else:
            yield (location, row), request
    yield _count(READ, count)


def _serialize(element: Any, job: Job) -> Iterator[Any]:
    (location, row), predicted = element
    try:
        if isinstance(predicted, RowError):
            raise predicted
        serialized = job.serialize(row, predicted)
    except RowError as error:
        yield _refuse(location, error)
        return
    _ROWS.inc()
    yield serialized
    yield _count(PREDICTED)
    value = predicted[PREDICTION]
    if value is None:
        yield _count(ABSTAINED)
    elif isinstance(value, float):
        yield _count(SCORE, value)
    else:
        for name in value if isinstance(value, list) else [value]:
            yield _count(CLASS_PREFIX + name)


def _refuse(location: Location, error: RowError) -> beam.pvalue.TaggedOutput:
    refusal = {**location._asdict(), "reason": str(error)}
    return beam.pvalue.TaggedOutput(REFUSED, refusal)


def _count(name: str, number: float = 1) -> beam.pvalue.TaggedOutput:
    return beam.pvalue.TaggedOutput(COUNTS, (name, number))
