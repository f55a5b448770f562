"""Compares runs; the result is data."""

from __future__ import annotations

import csv
import dataclasses
import logging
import math
import string
from collections import Counter
from collections.abc import Iterable, Sequence
from typing import Any

import numpy as np
import pydantic
import yaml

from contracts.errors import UsageError
from contracts.records import Record
from contracts.records.evaluation import Estimate, PairedTest
from contracts.redaction import Redaction, import_function
from contracts.storage import files
from contracts.task.definition import NO_ID, TaskConfig
from ingest.examples import tf_examples
from modules import environment
from modules.evaluation import prediction_files, resampling
from modules.evaluation.prediction_files import RecordedPredictions
from pipeline.config import tfx_names
from pipeline.operations.record import LOG_FILE, RESTORE, SETTINGS_FILE, damage_error
from pipeline.operations.run import Run

logger = logging.getLogger(__name__)

LETTERS = string.ascii_uppercase  # of compared runs

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
      text_columns: The columns of the texts. They are not written.
    """

    metric: str
    split: str
    rows: int
    texts_match: bool
    runs: list[ComparedRun]
    settings: list[Setting]
    changed: list[ChangedRow]
    text_columns: list[str] = pydantic.Field([], exclude=True)

    @property
    def letters(self) -> str:
        """The names of the runs in tables, a letter each."""
        return LETTERS[: len(self.runs)]

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
class _Compared:
    """What is compared of a run.

    Attributes:
      run: The run.
      settings: Its recipe with every setting, also if this release refuses one.
      task: The task of the recipe.
      split: The compared split.
      predictions: Those of the split.
      texts: The texts of the split by id.
    """

    run: Run
    settings: dict[str, Any]
    task: TaskConfig
    split: str
    predictions: RecordedPredictions
    texts: dict[int, tuple[str, ...]] = dataclasses.field(default_factory=dict)

    @classmethod
    def read(cls, run: Run, first: _Compared | None, split: str | None) -> _Compared:
        """Reads the settings and the predictions of a run.

        Args:
          run: The run.
          first: The run that it is compared with, which has the split; None for itself.
          split: The split of the first run; None is the split that decided.

        Raises:
          UsageError: It did not train a model, its task is not that of the first run,
            or a file cannot be read.
        """
        if not {tfx_names.MODEL_RUN, tfx_names.EXAMPLES} <= run.artifacts.keys():
            raise _untrained(run)
        path = run.directory / SETTINGS_FILE
        try:
            try:
                # Settings that its release did not have get today's defaults.
                settings = run.settings.model_dump(mode="json")
            except UsageError:
                settings = yaml.safe_load(path.read_text(encoding="utf-8"))
            task = TaskConfig.model_validate(settings["task"])
            split = split or str(settings["evaluator"]["split"])
        except (OSError, ValueError, LookupError, TypeError, yaml.YAMLError) as error:
            advice = f"{RESTORE}, or compare other runs"
            raise damage_error(path, error, advice) from error
        if first:
            kind, other, split = first.task.label_kind, task.label_kind, first.split
            if (other.noun, other.names) != (kind.noun, kind.names):
                raise UsageError(
                    "task",
                    f"{first.run.id} predicts {kind.describe_outputs()}, {run.id} "
                    f"{other.describe_outputs()}",
                    advice="compare runs of one task",
                    name="E-runs-not-comparable",
                )
        return cls(run, settings, task, split, _read_predictions(run, task, split))

    @property
    def examples(self) -> str:
        """Directory of the Examples."""
        return self.run.artifacts[tfx_names.EXAMPLES].uri

    def keys(self, *, by_texts: bool) -> dict[_Key, int]:
        """Returns the index of each row by the key that it has in every run.

        Args:
          by_texts: Whether the texts are a part of the key. Rows without texts, whose
            id is not unique, then have no key.
        """
        seen: Counter[_Row] = Counter()
        keys: dict[_Key, int] = {}
        ids, labels, *_ = self.predictions
        rows = zip(ids.tolist(), labels.reshape(len(ids), -1).tolist(), strict=True)
        for index, (row_id, label) in enumerate(rows):
            if by_texts and row_id not in self.texts:
                continue
            row = (row_id, tuple(label), self.texts[row_id] if by_texts else ())
            keys[row, seen[row]] = index
            seen[row] += 1
        return keys


def compare(
    runs: Sequence[Run], *, split: str | None = None, with_texts: bool = True
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
    first = _Compared.read(runs[0], None, split)
    compared = [first, *(_Compared.read(run, first, split) for run in runs[1:])]
    task, split = first.task, first.split
    if with_texts:
        texts: dict[str, dict[int, tuple[str, ...]]] = {}
        for each in compared:
            if each.examples not in texts:
                texts[each.examples] = _read_texts(each.examples, split, each.task)
        if all(texts.values()):  # else those of one run were deleted
            compared = [
                dataclasses.replace(each, texts=texts[each.examples])
                for each in compared
            ]
    same_examples = len({each.examples for each in compared}) == 1
    by_texts = not same_examples and bool(compared[0].texts)
    keys = [each.keys(by_texts=by_texts) for each in compared]
    common = [key for key in keys[0] if all(key in other for other in keys[1:])]
    if not common:
        names = " and ".join(run.id for run in runs)
        raise UsageError(
            "split",
            f"{names} have no row of {split} in common: no id has the same label and "
            "texts in all runs",
            advice="compare runs on the same data",
            name="E-runs-not-comparable",
        )
    shared = [
        RecordedPredictions(
            *(values[[of_run[key] for key in common]] for values in each.predictions)
        )
        for each, of_run in zip(compared, keys, strict=True)
    ]
    changed = _changed_rows(task, shared, compared[0].texts)
    functions = (each.settings.get("redact") for each in compared)
    for function in dict.fromkeys(filter(None, functions)):
        _redact(changed, task, function)
    return Comparison(
        metric=task.metric,
        split=split,
        rows=len(common),
        texts_match=same_examples or by_texts,
        runs=[
            _describe_run(each, task, rows, shared[0])
            for each, rows in zip(compared, shared, strict=True)
        ],
        settings=differing_settings([each.settings for each in compared]),
        changed=changed,
        text_columns=task.text_columns,
    )


def _redact(rows: Iterable[ChangedRow], task: TaskConfig, function: str) -> None:
    """Redacts rows; they have no texts if the function cannot be imported."""
    try:
        redaction = Redaction(import_function(function))
    except UsageError as error:  # the directory of the recipe is unknown
        logger.warning("texts are not shown: %s", error)
        redaction = Redaction(lambda _: None)
    for row in rows:
        texts = dict(zip(task.text_columns, row.texts, strict=False))
        row.texts = list(redaction.redact_row(texts).values()) if texts else []


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


def _untrained(run: Run) -> UsageError:
    """Returns the error of a run without predictions."""
    why = "its Trainer did not finish"
    advice = f"{run.directory / LOG_FILE} shows why"
    if run.state == "running":
        why, advice = "it is running", "compare it when its Trainer has ended"
    elif run.record.tfx_run_id and not run.components:
        why, advice = f"{run.paths.metadata} does not know it", RESTORE
    got = f"{run.id} has no predictions: {why}"
    return UsageError("run", got, advice=advice, name="E-runs-not-comparable")


def _read_predictions(run: Run, task: TaskConfig, split: str) -> RecordedPredictions:
    model_run = run.artifacts[tfx_names.MODEL_RUN].uri
    try:
        return prediction_files.read_predictions(model_run, task, split)
    except (OSError, ValueError, TypeError, LookupError, csv.Error) as error:
        reason = f"damaged ({type(error).__name__})"
        if isinstance(error, OSError):
            reason = f"missing ({error.strerror})"
        raise UsageError(
            model_run,
            f"run {run.id}, split {split}: the predictions are {reason}",
            advice="compare an evaluated split, or restore the files from a backup",
            name="E-record-damaged",
        ) from error


def _read_texts(
    examples: str, split: str, task: TaskConfig
) -> dict[int, tuple[str, ...]]:
    """Returns the texts of each row by its id, except rows whose id is not unique.

    Returns:
      An empty dict if the Examples hold tokens, or were deleted.

    Raises:
      UsageError: A file of the Examples is damaged.
    """
    if task.is_tokenized:
        return {}
    environment.set_up(quiet=True)
    import tensorflow as tf  # takes seconds, and not every comparison reads texts

    # The layout of TFX's artifacts.
    try:
        paths = files.list_records([f"{examples}/Split-{split}/*"])
    except files.MissingRecordsError:
        return {}
    texts: dict[int, tuple[str, ...]] = {}
    repeated = set()
    try:
        for serialized in tf.data.TFRecordDataset(paths, "GZIP").as_numpy_iterator():
            row = tf_examples.to_row(serialized)
            # `to_row` returns None for an empty feature.
            values = tuple(str(row.get(column) or "") for column in task.text_columns)
            row_id = row.get(task.id_column, NO_ID)
            if texts.setdefault(row_id, values) != values:
                repeated.add(row_id)
    except tf.errors.OpError as error:
        raise UsageError(
            examples,
            f"the texts cannot be read ({type(error).__name__})",
            advice=f"{RESTORE}, or compare without texts, with `rows=0` or "
            "`with_texts=False`",
            name="E-record-damaged",
        ) from error
    return {row_id: row for row_id, row in texts.items() if row_id not in repeated}


def _describe_run(
    compared: _Compared,
    task: TaskConfig,
    shared: RecordedPredictions,
    first: RecordedPredictions,
) -> ComparedRun:
    intervals = resampling.confidence_intervals(task, shared.rows)
    tests = resampling.paired_tests(task, first.rows, shared.rows, list(intervals))
    return ComparedRun(
        name=compared.run.id,
        rows=len(compared.predictions.ids),
        metrics={
            metric: Estimate(
                value=tests[metric].b, interval=None if math.isnan(ends[0]) else ends
            )
            for metric, ends in intervals.items()
        },
        tests={}
        if shared is first
        else {
            name: test
            for name, test in tests.items()
            if "/" not in name or name == task.metric
        },
    )


def _changed_rows(
    task: TaskConfig,
    predictions: Sequence[RecordedPredictions],
    texts: dict[int, tuple[str, ...]],
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
            texts=list(texts.get(int(first.ids[row]), ())),
            label=task.describe_label(first.labels[row]),
            predictions=[task.describe_label(value) for value in predicted[:, row]],
            probabilities=likelihoods[:, row].tolist() if has_probabilities else [],
            change=float(shown[row]),
        )
        for row in order[is_changed[order]]
    ]
