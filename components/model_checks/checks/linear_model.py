"""Compares a model with a linear model on words, on all rows and in slices."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

import numpy as np
from pydantic import PositiveInt

from components.model_checks.check import Check, Data, Model, Rows, Texts
from contracts import metrics, wording
from contracts.records.checks import Cell, CheckResult, Table
from contracts.records.evaluation import PairedTest, describe_slice
from contracts.settings.checks import CheckSettings
from contracts.task.definition import EVAL_SPLIT, TRAIN_SPLIT, TaskConfig

if TYPE_CHECKING:
    from modules.evaluation.linear_model import LinearModel, Words
    from modules.evaluation.significance import SliceKey

_PREDICTED_ROWS = 1000  # at a time: their features are in memory


class LinearModelCheck(Check):
    """Trains a linear model on words, and tests whether the model is worse."""

    class Settings(CheckSettings):
        """A linear model on words, which each run trains and compares the model with.

        The model fails if it is worse in `task.metric`, on all rows or in a slice, by a
        test on the same rows with a p-value below `evaluator.significance`.

        Attributes:
          min_slice_rows: A slice is tested if it has this many rows that the metric
            counts, because fewer could refuse any model.
        """

        min_slice_rows: PositiveInt = 30

    title = "Linear model on words"

    def run(self, model: Model, data: Data, settings: Settings) -> CheckResult:
        """Trains a linear model, and compares the model with it.

        Both predict as `task.decision` says: the model as it is exported, and the
        linear model with a threshold that is chosen on `eval`, too. Without a decision,
        both predict the most probable class. If the rows have no unique ids, only
        metrics are compared.
        """
        from modules.evaluation import linear_model, resampling, significance

        task, name = data.task, data.task.metric
        train = data.rows(TRAIN_SPLIT, linear_model.most_rows(task))
        linear = linear_model.LinearModel(
            task, _words(train.texts), train.labels, train.weights
        )
        rows = data.rows()
        outputs = _predict(linear, rows)
        threshold = _choose_threshold(linear, data, outputs)
        predicted = metrics.Rows.of(rows.labels, outputs, threshold=threshold)
        values = metrics.compute(task.classes, predicted)
        shown = [key for key in values if "/" not in key or key == name]
        table: list[list[Cell]] = [
            ["all rows", key, data.facts.metrics.get(key), _finite(values[key])]
            for key in shown
        ]
        count = wording.count(len(train), "row")
        sentence = f"compared with a linear model on words ({count} of {TRAIN_SPLIT}), "
        figures: dict[str, Cell] = {f"rows of {TRAIN_SPLIT}": len(train)}
        worse, advice = list[str](), "check the labels and the settings of the trainer"
        order = np.argsort(rows.ids)  # which a bootstrap depends on
        own = model.recorded(data.split).find(rows.ids[order])
        if own is None:
            value = data.facts.metrics.get(name, math.nan)
            sentence += f"{name} is {value:.4f} instead of {values[name]:.4f}"
        else:
            predicted = predicted.take(order)
            test = resampling.paired_test(task, predicted, own, name)
            sentence += test.sentence
            figures |= {"difference": test.estimate, "p-value": _finite(test.p_value)}
            cells, tests = compare_slices(
                task, predicted, own, _slice(rows, order), settings.min_slice_rows
            )
            table += cells
            limit = data.facts.significance
            other = f"that of a linear model on words, trained on {count}"
            if reason := significance.find_reason(test, other, limit):
                worse = [f"{reason}, on {wording.count(test.rows, 'row')}"]
            else:
                other = "a linear model's"
                worse = significance.find_worse_slices(tests, other, limit)
                advice = f"add such rows to {TRAIN_SPLIT}, check their labels"
        if settings.action == "refuse":
            advice += ", or set checks.linear_model.action=warn"
        return CheckResult(
            status=settings.failed if worse else "passed",
            sentence="; ".join(worse) or sentence,
            advice=advice if worse else "",
            figures=figures,
            table=Table(
                columns=["rows", "metric", "model", "linear model"], rows=table
            ),
            error="E-worse-than-linear-model",
        )


def compare_slices(
    task: TaskConfig,
    linear: metrics.Rows,
    model: metrics.Rows,
    slices: Mapping[tuple[str, str], np.ndarray],
    min_rows: int,
) -> tuple[list[list[Cell]], dict[SliceKey, PairedTest]]:
    """Compares a model with a linear one in slices.

    Args:
      task: Has the metric.
      linear: The predictions of the linear model.
      model: Those of the model on the same rows.
      slices: The indices of the rows by feature and value.
      min_rows: A slice with fewer rows that the metric counts is not tested.

    Returns:
      Name, metric, and its value of the model and of the linear one in each slice; and
      the tests.
    """
    from modules.data import slice_sizes
    from modules.evaluation import resampling

    cells: list[list[Cell]] = []
    tests: dict[SliceKey, PairedTest] = {}
    name = task.metric
    for (feature, value), chosen in slices.items():
        a, b = linear.take(chosen), model.take(chosen)
        of_linear, of_model = (
            _finite(metrics.compute(task.classes, part, [name])[name])
            for part in (a, b)
        )
        part = describe_slice(feature, value, len(chosen))
        cells.append([part, name, of_model, of_linear])
        counts: slice_sizes.Counts = {}
        for label in a.labels.tolist():
            slice_sizes.count_row(counts, value, label, task)
        rows, _ = slice_sizes.count_deciding(name, counts[value], task)
        if rows >= min_rows:
            tests[(feature, value),] = resampling.paired_test(task, a, b, name)
    return cells, tests


def _choose_threshold(
    linear: LinearModel, data: Data, outputs: np.ndarray
) -> metrics.Threshold:
    """Returns the threshold of the linear model by `task.decision`.

    Args:
      linear: The linear model.
      data: The data.
      outputs: Its outputs of the split that decides.
    """
    from modules.evaluation import decision, linear_model

    task = data.task
    if task.decision is None:
        return None
    rows = data.rows()
    if data.split != EVAL_SPLIT:
        rows = data.rows(EVAL_SPLIT, linear_model.most_rows(task))
        outputs = _predict(linear, rows)
    return decision.find_threshold(
        task.decision, rows.labels, outputs, task.classes or ()
    )


def _predict(linear: LinearModel, rows: Rows) -> np.ndarray:
    starts = range(0, len(rows), _PREDICTED_ROWS)
    parts = (rows.texts[start : start + _PREDICTED_ROWS] for start in starts)
    return np.concatenate([linear.predict(_words(part)) for part in parts])


def _words(rows: Sequence[Texts]) -> list[Words]:
    from modules.data.words import split_words

    return [[split_words(text) for text in texts] for texts in rows]


def _slice(rows: Rows, order: np.ndarray) -> dict[tuple[str, str], np.ndarray]:
    """Returns the positions in an order of the rows, by feature and value."""
    return {
        (feature, value): np.flatnonzero(np.array(values, object)[order] == value)
        for feature, values in rows.slices.items()
        for value in sorted(set(values))
    }


def _finite(value: float) -> float | None:
    return value if math.isfinite(value) else None
