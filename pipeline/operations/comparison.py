"""Compares runs; the result is data."""

from __future__ import annotations

import csv
import dataclasses
import math
import string
from collections import Counter
from collections.abc import Iterable, Sequence
from typing import Any

import numpy as np

from contracts.errors import UsageError
from contracts.metrics import Rows
from contracts.records import Record
from contracts.records.evaluation import Estimate, PairedTest
from contracts.task.definition import TaskConfig
from modules.evaluation import prediction_files, resampling
from pipeline.operations import row_texts
from pipeline.operations.compared_run import FinishedRun

LETTERS = string.ascii_uppercase  # names of compared runs in tables

# Id, labels and texts of a row; and the number of earlier rows that are equal.
_Row = tuple[int, tuple[float, ...], tuple[str, ...]]
_Key = tuple[_Row, int]


class Setting(Record):
    """A setting that differs between runs.

    Attributes:
      key: Its dotted key.
      values: Its value in each run; None if the run has no such setting.
    """

    key: str
    values: list[Any]


class ComparedRun(Record):
    """A run.

    Attributes:
      name: The name of its record.
      rows: The number of rows that it predicted.
      metrics: Its metrics on the common rows.
      tests: Tests against the first run, by metric. A metric of one class has a test
        only if it decides.
    """

    name: str
    rows: int
    metrics: dict[str, Estimate]
    tests: dict[str, PairedTest]


class ChangedRow(Record):
    """A row that the runs predict differently.

    Attributes:
      id: Its id.
      texts: Its texts; empty if they were not read.
      label: Name of its class, names of its labels, or its score.
      predictions: The name of the class, the names of the labels, or the score, that
        each run predicts.
      probabilities: The probability of the label in each run; empty for a regression.
        Of several labels, the product of the probabilities that each is as the row has
        it.
      change: The largest difference from the first run, in the label's probability or
        in the score; infinite if only some of the predictions are finite.
    """

    id: int
    texts: list[str]
    label: str
    predictions: list[str]
    probabilities: list[float]
    change: float


class Comparison(Record):
    """A comparison of two or more runs, which are tested against the first.

    Attributes:
      metric: The metric that decides.
      split: The split that decided.
      rows: The number of common rows: those that all runs predicted.
      texts_match: Whether the common rows have the same texts. False if the runs may
        have different data whose texts were not read: only ids and labels match.
      runs: The runs.
      settings: The settings that differ.
      changed: The rows whose prediction differs, the largest change first.
    """

    metric: str
    split: str
    rows: int
    texts_match: bool
    runs: list[ComparedRun]
    settings: list[Setting]
    changed: list[ChangedRow]

    @property
    def warning(self) -> str:
        """Why the comparison may be wrong; empty if it is right."""
        if self.texts_match:
            return ""
        return (
            "Rows were matched by id and label only: the runs may have different data, "
            "and texts were not read, were deleted or have no unique id. If the data "
            "differ, the comparison is wrong."
        )


@dataclasses.dataclass(frozen=True)
class _Predictions:
    """The predictions of a run, and its texts by id."""

    ids: np.ndarray
    labels: np.ndarray
    outputs: np.ndarray
    predicted: np.ndarray
    texts: dict[int, tuple[str, ...]]

    @property
    def rows(self) -> Rows:
        """The values that metrics read."""
        return Rows.of(self.labels, self.outputs, predicted=self.predicted)

    def keys(self, *, by_texts: bool) -> dict[_Key, int]:
        """Returns the index of each row by the key that it has in every run.

        Args:
          by_texts: Whether the texts are a part of the key. Rows without texts, whose
            id is not unique, then have no key.
        """
        seen: Counter[_Row] = Counter()
        keys: dict[_Key, int] = {}
        labels = self.labels.reshape(len(self.labels), -1).tolist()
        rows = zip(self.ids.tolist(), labels, strict=True)
        for index, (row_id, label) in enumerate(rows):
            if by_texts and row_id not in self.texts:
                continue
            row = (row_id, tuple(label), self.texts[row_id] if by_texts else ())
            keys[row, seen[row]] = index
            seen[row] += 1
        return keys

    def take(self, indices: Iterable[int]) -> _Predictions:
        """Returns some of the rows."""
        chosen = list(indices)
        return _Predictions(
            self.ids[chosen],
            self.labels[chosen],
            self.outputs[chosen],
            self.predicted[chosen],
            self.texts,
        )


def compare(
    runs: Sequence[FinishedRun], *, split: str | None = None, with_texts: bool = True
) -> Comparison:
    """Compares runs on the rows that all of them predicted.

    Rows are the same if their ids, labels and texts are equal. In runs on the same
    Examples, which a cached ExampleGen gives, the texts need no comparison.

    Args:
      runs: Two or more.
      split: An evaluated split; None is the split that decided.
      with_texts: Whether to read the texts, which takes some seconds.

    Raises:
      UsageError: The tasks differ, a run has no predictions of the split, or the runs
        have no row in common.
    """
    task, split = runs[0].task, split or runs[0].split
    kind = task.label_kind
    for run in runs[1:]:
        other = run.task.label_kind
        if (other.noun, other.names) != (kind.noun, kind.names):
            raise UsageError(
                "task",
                f"{runs[0].name} predicts {kind.describe_outputs()}, {run.name} "
                f"{other.describe_outputs()}",
                advice="compare runs of one task",
                name="E-runs-not-comparable",
            )
    texts_by_uri: dict[str, dict[int, tuple[str, ...]]] = {}
    if with_texts:
        for run in runs:
            if run.examples not in texts_by_uri:
                texts = row_texts.read(run.examples, split, run.task)
                texts_by_uri[run.examples] = texts
        if not all(texts_by_uri.values()):
            texts_by_uri = {}  # the texts of one run were deleted: keys have no texts
    predictions = [
        _Predictions(*_read_predictions(run, split), texts_by_uri.get(run.examples, {}))
        for run in runs
    ]
    same_examples = len({run.examples for run in runs}) == 1
    by_texts = not same_examples and bool(texts_by_uri)
    keys = [each.keys(by_texts=by_texts) for each in predictions]
    common = [key for key in keys[0] if all(key in other for other in keys[1:])]
    if not common:
        names = " and ".join(run.name for run in runs)
        raise UsageError(
            "split",
            f"{names} have no row of {split} in common: no id has the same label and "
            "texts in all runs",
            advice="compare runs on the same data",
            name="E-runs-not-comparable",
        )
    shared = [
        each.take(of_run[key] for key in common)
        for each, of_run in zip(predictions, keys, strict=True)
    ]
    return Comparison(
        metric=task.metric,
        split=split,
        rows=len(common),
        texts_match=same_examples or by_texts,
        runs=[
            _describe_run(run.name, len(each.ids), task, rows, shared[0])
            for run, each, rows in zip(runs, predictions, shared, strict=True)
        ],
        settings=differing_settings([run.settings for run in runs]),
        changed=_changed_rows(task, shared),
    )


def differing_settings(recipes: Sequence[dict[str, Any]]) -> list[Setting]:
    """Returns the settings that differ, in the order of the recipes."""
    flat = [dict(_flatten(settings)) for settings in recipes]
    keys = dict.fromkeys(key for settings in flat for key in settings)
    settings = [
        Setting(key=key, values=[settings.get(key) for settings in flat])
        for key in keys
    ]
    return [each for each in settings if any(v != each.values[0] for v in each.values)]


def _flatten(settings: Any, prefix: str = "") -> Iterable[tuple[str, Any]]:
    for key, value in settings.items():
        if isinstance(value, dict) and value:
            yield from _flatten(value, f"{prefix}{key}.")
        else:
            yield f"{prefix}{key}", value


def _read_predictions(
    run: FinishedRun, split: str
) -> prediction_files.RecordedPredictions:
    try:
        return prediction_files.read_predictions(run.model_run, run.task, split)
    except (OSError, ValueError, TypeError, LookupError, csv.Error) as error:
        reason = f"damaged ({type(error).__name__})"
        if isinstance(error, OSError):
            reason = f"missing ({error.strerror})"
        raise UsageError(
            run.model_run,
            f"run {run.name}, split {split}: the predictions are {reason}",
            advice="compare an evaluated split, or restore the files from a backup",
            name="E-record-damaged",
        ) from error


def _describe_run(
    name: str, rows: int, task: TaskConfig, run: _Predictions, first: _Predictions
) -> ComparedRun:
    intervals = resampling.confidence_intervals(task, run.rows)
    tests = resampling.paired_tests(task, first.rows, run.rows, list(intervals))
    return ComparedRun(
        name=name,
        rows=rows,
        metrics={
            metric: Estimate(
                value=tests[metric].b, interval=None if math.isnan(ends[0]) else ends
            )
            for metric, ends in intervals.items()
        },
        tests={}
        if run is first
        else {
            name: test
            for name, test in tests.items()
            if "/" not in name or name == task.metric
        },
    )


def _changed_rows(
    task: TaskConfig, predictions: Sequence[_Predictions]
) -> list[ChangedRow]:
    first = predictions[0]
    predicted = np.stack([each.rows.predictions for each in predictions])
    by_label = predicted.reshape(*predicted.shape[:2], -1)
    outputs = np.stack([each.outputs for each in predictions])
    likelihoods = task.label_kind.likelihoods(outputs, first.labels)
    is_finite = np.isfinite(by_label).all(axis=2)
    values = np.where(is_finite, likelihoods, np.nan)
    change = np.nan_to_num(np.abs(values - values[0]))
    shown = np.where(is_finite == is_finite[0], change, np.inf).max(axis=0)
    is_changed = task.label_kind.are_different(by_label, shown)
    has_probabilities = bool(task.label_kind.names)
    order = np.argsort(-shown, kind="stable")
    return [
        ChangedRow(
            id=int(first.ids[row]),
            texts=list(first.texts.get(int(first.ids[row]), ())),
            label=task.describe_label(first.labels[row]),
            predictions=[task.describe_label(value) for value in predicted[:, row]],
            probabilities=likelihoods[:, row].tolist() if has_probabilities else [],
            change=float(shown[row]),
        )
        for row in order[is_changed[order]]
    ]
