"""The uncertainty of metrics: bootstrap intervals, and a test of two models."""

from __future__ import annotations

import math
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from typing import NamedTuple

import numpy as np
from scipy import stats

from contracts import metrics
from contracts.metrics import CONFIDENCE, Metric, Rows, Sample
from contracts.records.evaluation import PairedTest
from contracts.task.definition import TaskConfig

RESAMPLES = 1000


class Units(NamedTuple):
    """The units that resamples draw: rows, or groups of rows that are equal to metrics.

    Attributes:
      counts: Number of rows in each unit, int64[units].
      models: The units with the predictions of each model.
    """

    counts: np.ndarray
    models: Sequence[Rows]


_Divide = Callable[[Sequence[Rows]], Units]  # `_by_row` or `_by_cell`


def confidence_intervals(
    task: TaskConfig,
    rows: Rows,
    names: Collection[str] | None = None,
    *,
    resamples: int = RESAMPLES,
) -> dict[str, tuple[float, float]]:
    """Returns the 95 % interval of metrics, from a bootstrap over rows.

    Its ends are percentiles, corrected for bias. Resamples without a value, such as the
    AUC of one class, are ignored. All resamples of a proportion of 0 or 1 are equal, so
    its interval is Wilson's. For metrics of probabilities and scores, a resample has at
    most 5,000 rows, or as many as it takes, up to 50,000, for 100 rows of the rarer of
    two classes, or of each of several labels that not all rows have or lack. Of several
    labels, it has at most 5,000 rows for other metrics if more rows are different.
    Their spread is scaled by the square root of the number of rows.

    Args:
      task: Has the metrics.
      rows: The rows.
      names: Some metrics of the task; None for all.
      resamples: The number of resamples.

    Returns:
      Low and high by metric; both are NaN if the metric is NaN, or if all resamples are
      equal.
    """
    intervals: dict[str, tuple[float, float]] = {}
    whole = Sample(rows, np.ones((len(rows), 1)))
    values = metrics.compute(task.classes, rows, names)
    for divide, table in _divisions(task):
        chosen = {name: metric for name, metric in table.items() if name in values}
        samples = _bootstrap(divide, chosen, [rows], resamples) if chosen else {}
        for name, metric in chosen.items():
            intervals[name] = _interval(values[name], samples[name][0])
            trials = metric.count_trials(whole) if values[name] in (0, 1) else None
            if trials is None or not trials[0]:
                continue
            successes = int(values[name] * trials[0])
            test = stats.binomtest(successes, int(trials[0]))
            interval = test.proportion_ci(CONFIDENCE, method="wilson")
            low, high = map(metric.of_proportion, map(float, interval))
            intervals[name] = (low, high)
    return intervals


def paired_test(
    task: TaskConfig, rows_a: Rows, rows_b: Rows, metric: str
) -> PairedTest:
    """Tests whether two models differ in a metric on the same rows; see `paired_tests`.

    Raises:
      ValueError: The task has no such metric.
    """
    return paired_tests(task, rows_a, rows_b, [metric])[metric]


def paired_tests(
    task: TaskConfig, rows_a: Rows, rows_b: Rows, names: Collection[str]
) -> dict[str, PairedTest]:
    """Tests for each metric whether two models differ in it on the same rows.

    Accuracy is tested by McNemar's exact test, with the interval of Bonett and Price
    (2012). For all other metrics the difference is bootstrapped: the p-value is twice
    the share of the resamples on the other side of 0.

    Args:
      task: Has the metrics.
      rows_a: The predictions of the first model.
      rows_b: The predictions of the second model, with the same labels.
      names: Some metrics of the task.

    Raises:
      ValueError: The task has no such metric.
    """
    known = task.metric_table
    for name in names:
        if name not in known:
            raise ValueError(f"metric {name!r} is not one of {', '.join(known)}")
    models = [rows_a, rows_b]
    a, b = (metrics.compute(task.classes, rows, names) for rows in models)
    right = {}
    if rows_a.classes:
        a_right, b_right = rows_a.is_right, rows_b.is_right
        right = {
            "only_a_right": int(np.sum(a_right & ~b_right)),
            "only_b_right": int(np.sum(b_right & ~a_right)),
        }
    tests: dict[str, PairedTest] = {}
    for divide, table in _divisions(task):
        resampled = {
            name: metric
            for name, metric in table.items()
            if name in names and not metric.is_share_of_right
        }
        samples: dict[str, np.ndarray] = {}
        if resampled:
            samples = _bootstrap(divide, resampled, models)
        for name in table:
            if name not in names:
                continue
            if name in samples:
                method = "paired bootstrap"
                interval = _test(np.subtract(*samples[name][::-1]))
            else:
                method = "McNemar"
                interval = _accuracy_test(**right, rows=len(rows_a))
            difference = b[name] - a[name]
            if not math.isfinite(difference):
                interval = (math.nan, math.nan, math.nan)
            low, high, p_value = interval
            tests[name] = PairedTest(
                metric=name,
                rows=len(rows_a),
                a=a[name],
                b=b[name],
                difference=difference,
                low=low,
                high=high,
                p_value=p_value,
                method=method,
                **right,
            )
    return {name: tests[name] for name in names}


def _divisions(task: TaskConfig) -> list[tuple[_Divide, Mapping[str, Metric]]]:
    """Returns how metrics are resampled: by cell, or by row if they need more."""
    table = task.metric_table
    if not task.label_kind.names:
        return [(_by_row, table)]
    of_rows = {name: m for name, m in table.items() if m.needs_probabilities}
    of_cells = {name: m for name, m in table.items() if name not in of_rows}
    return [(_by_cell, of_cells), (_by_row, of_rows)]


def _by_row(models: Sequence[Rows]) -> Units:
    return Units(np.ones(len(models[0]), int), models)


def _by_cell(models: Sequence[Rows]) -> Units:
    """Returns the cells of the confusion matrix.

    They have one axis for the label and one for the prediction of each model. Of
    several labels, a cell is a combination that occurs.
    """
    if models[0].has_label_sets:
        columns = [models[0].labels, *(model.predictions for model in models)]
        rows = np.concatenate(columns, axis=1)
        _, first, counts = np.unique(
            rows, axis=0, return_index=True, return_counts=True
        )
        return Units(counts, [model.take(first) for model in models])
    shape = [models[0].classes] * (len(models) + 1)
    columns = [models[0].labels, *(np.nan_to_num(rows.predictions) for rows in models)]
    indices = np.ravel_multi_index([column.astype(int) for column in columns], shape)
    indices, counts = np.unique(indices, return_counts=True)
    actual, *predicted = np.unravel_index(indices, shape)
    unknown = np.full(len(counts), np.nan)
    cells = [
        Rows(
            actual.astype(float),
            classes.astype(float) if rows.is_finite else unknown,
            unknown,
            unknown,
            classes=rows.classes,
        )
        for rows, classes in zip(models, predicted, strict=True)
    ]
    return Units(counts, cells)


def _values(
    table: Mapping[str, Metric], rows: Rows, weights: np.ndarray
) -> dict[str, np.ndarray]:
    """Returns each metric of each sample, float64[samples]."""
    if not rows.is_finite:
        return dict.fromkeys(table, np.full(weights.shape[1], np.nan))
    sample = Sample(rows, weights)
    return {name: metric.values(sample) for name, metric in table.items()}


def _bootstrap(
    divide: _Divide,
    table: Mapping[str, Metric],
    models: Sequence[Rows],
    resamples: int = RESAMPLES,
) -> dict[str, np.ndarray]:
    """Returns each metric of each resample, float64[models, resamples]."""
    random = np.random.default_rng(0)
    units = part = divide(models)
    size = 5_000
    if divide is _by_row and (models[0].classes == 2 or models[0].has_label_sets):
        # The AUC varies with the rarer class, so a resample has 100 of its rows.
        positives = np.sum(models[0].labels == metrics.POSITIVE_CLASS, axis=0)
        rarer = np.minimum(positives, len(models[0]) - positives)
        # A label that all rows have, or none has, has no AUC.
        least = np.min(rarer, where=rarer > 0, initial=len(models[0]))
        size = min(max(size, math.ceil(100 * len(models[0]) / least)), 50_000)
    if len(units.counts) > size:
        chosen = random.choice(len(models[0]), size, replace=False)
        part = divide([rows.take(chosen) for rows in models])
    chunks = [
        [_values(table, rows, weights) for rows in part.models]
        for weights in _draw(part.counts, resamples, random)
    ]
    scale = math.sqrt(part.counts.sum() / units.counts.sum())
    samples: dict[str, list[np.ndarray]] = {name: [] for name in table}
    for model, (of_all, of_part) in enumerate(
        zip(units.models, part.models, strict=True)
    ):
        drawn = {
            name: np.concatenate([chunk[model][name] for chunk in chunks])
            for name in table
        }
        if part is not units:
            whole = _values(table, of_all, units.counts[:, None].astype(float))
            center = _values(table, of_part, part.counts[:, None].astype(float))
            drawn = {
                name: whole[name] + scale * (values - center[name])
                for name, values in drawn.items()
            }
        for name, values in drawn.items():
            samples[name].append(values)
    return {name: np.stack(of_models) for name, of_models in samples.items()}


def _draw(
    counts: np.ndarray, resamples: int, random: np.random.Generator
) -> Iterator[np.ndarray]:
    """Yields how often the resamples draw each unit, float64[units, chunk]."""
    size, rows = len(counts), int(counts.sum())
    step = max(1, 300_000 // size)  # limits the draws in memory
    for start in range(0, resamples, step):
        chunk = min(step, resamples - start)
        if size < rows:
            yield random.multinomial(rows, counts / rows, chunk).T.astype(float)
            continue
        # Each unit is a row: faster than a multinomial distribution of that many rows.
        drawn = random.integers(size, size=(size, chunk)) * chunk + np.arange(chunk)
        weights = np.bincount(drawn.ravel(), minlength=size * chunk)
        yield weights.reshape(size, chunk).astype(float)


def _interval(value: float, samples: np.ndarray) -> tuple[float, float]:
    """Returns the percentiles of resamples, corrected for their bias (Efron 1981).

    A resample lacks some rows, and the macro F1 of many classes is lower without them.
    """
    samples = samples[np.isfinite(samples)]
    if not (math.isfinite(value) and len(samples)) or np.ptp(samples) == 0:
        return math.nan, math.nan
    below = np.mean(samples < value) + np.mean(samples == value) / 2
    bias = stats.norm.ppf(np.clip(below, 1 / len(samples), 1 - 1 / len(samples)))
    ends = stats.norm.ppf([(1 - CONFIDENCE) / 2, (1 + CONFIDENCE) / 2])
    low, high = np.quantile(samples, stats.norm.cdf(2 * bias + ends))
    return float(low), float(high)


def _test(samples: np.ndarray) -> tuple[float, float, float]:
    """Returns the interval of a difference and its p-value, from resamples."""
    samples = samples[np.isfinite(samples)]
    if not len(samples):
        return math.nan, math.nan, math.nan
    outside = (1 - CONFIDENCE) / 2
    low, high = np.quantile(samples, [outside, 1 - outside])
    # The original rows count as one resample, so no p-value is 0.
    tail = min(np.sum(samples <= 0), np.sum(samples >= 0)) + 1
    return float(low), float(high), min(1.0, 2 * float(tail) / (len(samples) + 1))


def mcnemar(only_a_right: int, only_b_right: int) -> float:
    """Returns the p-value of McNemar's exact test."""
    discordant = only_a_right + only_b_right
    if not discordant:
        return 1.0
    return float(stats.binomtest(only_b_right, discordant).pvalue)


def _accuracy_test(
    only_a_right: int, only_b_right: int, rows: int
) -> tuple[float, float, float]:
    """Returns the interval of the difference in accuracy and its exact p-value."""
    # The adjustment of Bonett and Price (2012): even equal models have a width above 0.
    a, b = (only_a_right + 1) / (rows + 2), (only_b_right + 1) / (rows + 2)
    error = math.sqrt((a + b - (b - a) ** 2) / (rows + 2))
    margin = float(stats.norm.ppf((1 + CONFIDENCE) / 2)) * error
    p_value = mcnemar(only_a_right, only_b_right)
    return b - a - margin, b - a + margin, p_value
