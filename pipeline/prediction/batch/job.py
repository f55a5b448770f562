"""The Beam pipeline: rows in, predictions, refused rows and a tally out."""

from __future__ import annotations

import collections
import dataclasses
import json
from collections.abc import Iterable, Iterator
from typing import Any

import apache_beam as beam
from apache_beam.ml.inference.base import KeyedModelHandler, RunInference

from pipeline.prediction.batch import sinks, sources, tf_examples
from pipeline.prediction.batch.rows import Place, Refusal, RowError, texts_of
from pipeline.prediction.batch.saved_model_handler import Description, SavedModelHandler

PREDICTIONS = "predictions"
REFUSED = "refused"
TALLY = "tally"
ROWS_METRIC = "predicted_rows"

# The output of a DoFn that is not its main one.
_VALUES = "values"
_CLASS = "class "


@dataclasses.dataclass(frozen=True)
class Job:
    """What is predicted, by what, and where to.

    Attributes:
      model: The model.
      file_format: Of the input, one of `sources.FORMATS`.
      paths: Its files.
      sink: Encodes and writes rows.
      directory: Where shards, refused rows and tally are written.
      suffix: What the names of these files have before the shard number.
      batch_rows: Rows that the model is asked at a time.
    """

    model: Description
    file_format: str
    paths: list[str]
    sink: sinks.Sink
    directory: str
    suffix: str
    batch_rows: int

    @property
    def takes_examples(self) -> bool:
        """Whether the model is asked by serialized `tf.Example`s."""
        return self.file_format == sources.TFRECORD

    def path(self, name: str) -> str:
        """Returns where files of a name begin."""
        return f"{self.directory}/{name}{self.suffix}"

    def request(self, row: Any) -> Any:
        """Returns what the model is asked of a row.

        Raises:
          RowError: The row lacks what the model wants.
        """
        if isinstance(row, RowError):
            raise row
        if not self.takes_examples:
            return texts_of(row, self.model.columns)
        tf_examples.check_features(row, self.model.features)
        return row

    def encode(self, row: Any, predicted: dict[str, Any]) -> Any:
        """Returns a row with its prediction, as the sink's writer takes it.

        Raises:
          RowError: The format cannot hold it.
        """
        if isinstance(row, bytes):
            if isinstance(self.sink, sinks.Examples):
                return tf_examples.from_row(predicted, row)
            row = tf_examples.to_row(row)
        return self.sink.encode({**row, **predicted})


def build(pipeline: beam.Pipeline, job: Job) -> None:
    """Adds the transforms of a job to a pipeline."""
    records = pipeline | "Read" >> sources.ReadRecords(job.file_format, job.paths)
    requests = records | "Parse" >> beam.ParDo(_Parse(job)).with_outputs(
        REFUSED, main=_VALUES
    )
    handler = SavedModelHandler(
        job.model, batch_rows=job.batch_rows, takes_examples=job.takes_examples
    )
    predicted = (
        requests[_VALUES]
        # A file is read by few workers, its rows are predicted by all.
        | "Spread" >> beam.Reshuffle()
        | "Predict" >> RunInference(KeyedModelHandler(handler))
        | "Encode"
        >> beam.ParDo(_Encode(job)).with_outputs(REFUSED, TALLY, main=_VALUES)
    )
    predicted[_VALUES] | "Write" >> job.sink.write(job.path(PREDICTIONS))
    refused = (requests[REFUSED], predicted[REFUSED]) | "Refused" >> beam.Flatten()
    (
        refused
        | "Describe" >> beam.Map(_describe)
        | "WriteRefused"
        >> beam.io.WriteToText(
            job.path(REFUSED), file_name_suffix=".jsonl", skip_if_empty=True
        )
    )
    counts = (
        records | "CountRead" >> beam.Map(_count_read),
        refused | "CountRefused" >> beam.Map(_count_refused),
        predicted[TALLY] | "CountPredicted" >> beam.Map(_count_predicted),
    )
    (
        counts
        | "Counts" >> beam.Flatten()
        | "Sum" >> beam.CombineGlobally(_Sum())
        | "AsJson" >> beam.Map(json.dumps)
        | "WriteTally"
        >> beam.io.WriteToText(
            job.path(TALLY), num_shards=1, shard_name_template="-SSSSS-of-NNNNN"
        )
    )


@dataclasses.dataclass(frozen=True)
class Tally:
    """What became of the rows, counted on the workers.

    Attributes:
      read: Rows that were read.
      predicted: Rows that were written with a prediction.
      refused: Rows that were not.
      classes: The number of rows of each predicted class.
      mean_score: Of the predicted scores; None of classes, and without rows.
    """

    read: int
    predicted: int
    refused: int
    classes: dict[str, int]
    mean_score: float | None

    @classmethod
    def of(cls, sums: dict[str, float]) -> Tally:
        """Makes it of the sums in the tally's file."""
        predicted = int(sums.get("predicted", 0))
        classes = {
            name.removeprefix(_CLASS): int(number)
            for name, number in sorted(sums.items())
            if name.startswith(_CLASS)
        }
        return cls(
            read=int(sums.get("read", 0)),
            predicted=predicted,
            refused=int(sums.get("refused", 0)),
            classes=classes,
            mean_score=sums["score"] / predicted if "score" in sums else None,
        )


class _Parse(beam.DoFn):
    def __init__(self, job: Job) -> None:
        super().__init__()
        self._job = job

    def setup(self) -> None:
        self._parser = sources.Parser(self._job.file_format)

    def process(self, element: Any) -> Iterator[Any]:
        place, row = self._parser.parse(*element)
        try:
            request = self._job.request(row)
        except RowError as error:
            yield _refuse(place, error)
        else:
            yield (place, row), request


class _Encode(beam.DoFn):
    def __init__(self, job: Job) -> None:
        super().__init__()
        self._job = job
        self._rows = beam.metrics.Metrics.counter(TALLY, ROWS_METRIC)

    def process(self, element: Any) -> Iterator[Any]:
        (place, row), predicted = element
        try:
            if isinstance(predicted, RowError):
                raise predicted
            encoded = self._job.encode(row, predicted)
        except RowError as error:
            yield _refuse(place, error)
        else:
            self._rows.inc()
            yield beam.pvalue.TaggedOutput(TALLY, predicted["prediction"])
            yield encoded


def _refuse(place: Place, error: RowError) -> beam.pvalue.TaggedOutput:
    return beam.pvalue.TaggedOutput(REFUSED, Refusal(place, str(error)))


def _describe(refusal: Any) -> str:
    return json.dumps(refusal.as_dict(), ensure_ascii=False)


def _count_read(_: Any) -> dict[str, float]:
    return {"read": 1}


def _count_refused(_: Any) -> dict[str, float]:
    return {"refused": 1}


def _count_predicted(value: Any) -> dict[str, float]:
    if isinstance(value, str):
        return {"predicted": 1, _CLASS + value: 1}
    return {"predicted": 1, "score": value}


class _Sum(beam.CombineFn):
    def create_accumulator(self) -> Any:
        return collections.Counter()

    def add_input(self, accumulator: Any, element: Any) -> Any:
        # Not `update` of another Counter nor `+`, which leaves out what is negative.
        for name, number in element.items():
            accumulator[name] += number
        return accumulator

    def merge_accumulators(self, accumulators: Iterable[Any]) -> Any:
        merged = self.create_accumulator()
        for accumulator in accumulators:
            self.add_input(merged, accumulator)
        return merged

    def extract_output(self, accumulator: Any) -> Any:
        return dict(accumulator)
