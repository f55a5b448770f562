"""Metrics of what was served, once its labels are known."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping, Sequence

import numpy as np

from contracts import metrics
from contracts.errors import UsageError
from contracts.settings.data import DataConfig
from contracts.task.definition import TaskConfig
from contracts.task.label_cells import to_text
from ingest.examples.label_parser import Label, LabelParser, NotAnIndexError
from ingest.rows import readers
from ingest.rows.formats import TFRECORD, format_of
from ingest.rows.row_errors import RowError
from ingest.rows.row_file import RowFile

Texts = tuple[bytes, ...]


@dataclasses.dataclass(frozen=True)
class PredictedRow:
    """A row with its prediction.

    Attributes:
      texts: Its texts in the order of the task.
      outputs: The probabilities of the classes, or the score alone.
      class_name: The predicted class; empty for a score, and for several labels.
      time: When it was predicted, in Unix seconds.
      version: The version that predicted it; empty if that is unknown.
      labels: 1 for each predicted label of several, and 0; empty for a class or score.
    """

    texts: Texts
    outputs: tuple[float, ...]
    class_name: str = ""
    time: int = 0
    version: str = ""
    labels: tuple[int, ...] = ()


@dataclasses.dataclass(frozen=True)
class LiveMetric:
    """A metric of the labelled rows.

    Attributes:
      name: The metric.
      value: Its value.
      threshold: The lowest value without an alarm; None turns the alarm off.
    """

    name: str
    value: float
    threshold: float | None = None

    @property
    def is_alarm(self) -> bool:
        """Whether the value is below the threshold, or is NaN."""
        return self.threshold is not None and not self.value >= self.threshold


def read_labels(
    path: str, task: TaskConfig, settings: DataConfig = readers.DEFAULTS
) -> dict[Texts, Label]:
    """Reads labels by the texts of their rows; the last label of a text counts.

    Args:
      path: A file of rows: .csv, .tsv, .jsonl, .parquet or .arrow.
      task: Names the columns, and the classes as the file writes them.
      settings: How the file is read.

    Raises:
      UsageError: The format is unknown, or a row has no text or no valid label.
    """
    file_format = format_of(path)
    if file_format in (None, TFRECORD):
        allowed = ".csv, .tsv, .jsonl, .parquet and .arrow"
        raise UsageError("labels", path, allowed, name="E-format-unknown")
    try:
        return _read_labels(RowFile(path, file_format, settings), task)
    except NotAnIndexError:
        named = task.model_copy(update={"labels": "name"})
        return _read_labels(RowFile(path, file_format, settings), named)


def _read_labels(file: RowFile, task: TaskConfig) -> dict[Texts, Label]:
    parser = LabelParser(task, DataConfig())
    labels: dict[Texts, Label] = {}
    for location, row in file.read():
        try:
            if isinstance(row, RowError):
                raise row
            assert not isinstance(row, bytes)  # only of TFRecords
            missing = {*task.text_columns, *task.label_columns} - row.keys()
            if missing:
                raise RowError(f"the row has no column {', '.join(sorted(missing))}")
            values = (to_text(row[name]) for name in task.text_columns)
            texts = tuple(value.encode() for value in values)
            labels[texts] = parser.parse_row(row)
        except RowError as error:
            raise UsageError(
                "labels",
                f"{location}: {error}",
                advice="correct the row",
                name="E-rows-refused",
            ) from error
    return labels


def measure(
    rows: Sequence[PredictedRow],
    labels: Mapping[Texts, Label],
    task: TaskConfig,
    thresholds: Mapping[str, float],
) -> list[LiveMetric]:
    """Returns the Evaluator's metrics of labelled rows; none without rows."""
    if not rows:
        return []
    values = metrics.compute(task.classes, join(rows, labels, task))
    return [LiveMetric(*value, thresholds.get(value[0])) for value in values.items()]


def fits(row: PredictedRow, task: TaskConfig) -> bool:
    """Returns whether the classes of a row are those of the task, or it has a score.

    An earlier version may have had others.
    """
    return task.label_kind.fits(len(row.outputs), row.class_name, row.labels)


def join(
    rows: Sequence[PredictedRow], labels: Mapping[Texts, Label], task: TaskConfig
) -> metrics.Rows:
    """Returns labelled rows, at least one, with their labels."""
    outputs = np.array([row.outputs for row in rows])
    actual = np.array([labels[row.texts] for row in rows])
    kind = task.label_kind
    # What was served, because a model may have a threshold.
    predicted = kind.served_predictions(
        [row.class_name for row in rows], [row.labels for row in rows]
    )
    if kind.names:
        actual = actual.astype(int)
    return metrics.Rows.of(actual, kind.from_outputs(outputs), predicted=predicted)
