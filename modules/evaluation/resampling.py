"""How sure metrics are: bootstrap intervals, and a test of two models on equal rows."""

from __future__ import annotations

import math
from collections.abc import Callable, Collection, Iterator
from typing import Annotated

import numpy as np
import pydantic
from scipy import stats

from modules.config.task import CLASS_METRICS, TaskConfig, class_metric
from modules.evaluation import weighted_metrics
from modules.evaluation.metrics import POSITIVE_CLASS
from modules.evaluation.weighted_metrics import Units

CONFIDENCE = 0.95
RESAMPLES = 1000
_ROWS = 5_000  # of a resample
_MOST_ROWS = 50_000  # of a resample if one of two classes is rare
_ROWS_OF_A_CLASS = 100  # in a resample: the AUC varies with the rarer class
_CHUNK = 300_000  # draws in memory at once

_Divide = Callable[..., Units]  # `weighted_metrics.cells` or `weighted_metrics.rows`

# JSON has no NaN or infinity.
_Number = Annotated[
    float, pydantic.PlainSerializer(lambda x: x if math.isfinite(x) else str(x))
]


class PairedTest(pydantic.BaseModel):
    """Whether two models differ in a metric by more than the choice of rows explains.

    Attributes:
      metric: The metric's name.
      rows: The rows that both models predicted.
      a: The metric of the first model.
      b: The metric of the second.
      difference: `b - a`.
      low: Lower end of the difference's 95 % interval.
      high: Upper end of it.
      p_value: Probability of a difference as large if the models are equally good.
      method: `McNemar` (exact, of accuracy) or `paired bootstrap`.
      only_a_right: Rows that only the first model predicts right; None of scores.
      only_b_right: Rows that only the second model predicts right; None of scores.
    """

    metric: str
    rows: int
    a: _Number
    b: _Number
    difference: _Number
    low: _Number
    high: _Number
    p_value: _Number
    method: str
    only_a_right: int | None = None
    only_b_right: int | None = None

    @property
    def may_be_noise(self) -> bool:
        """Whether the rows do not show a difference; also if the metric is NaN."""
        return not self.p_value < 1 - CONFIDENCE

    @pydantic.computed_field  # type: ignore[prop-decorator]
    @property
    def sentence(self) -> str:
        """The test in a sentence, which has the second model as its subject."""
        rows = f"{self.rows:,} rows"
        if not math.isfinite(self.difference):
            return f"{self.metric} cannot be compared: it is NaN ({rows})"
        if self.difference == 0 and self.p_value == 1:
            return f"{self.metric} is equal ({rows})"
        direction = "lower" if self.difference < 0 else "higher"
        verdict = "may be" if self.may_be_noise else "is more than"
        p_value = "p < 0.001" if self.p_value < 0.001 else f"p = {self.p_value:.2g}"
        return (
            f"{self.metric} is {abs(self.difference):.3f} {direction} (95 % interval "
            f"{self.low:.3f} to {self.high:.3f}); the difference {verdict} noise "
            f"({p_value}, {self.method}, {rows})"
        )


def confidence_intervals(
    task: TaskConfig,
    labels: np.ndarray,
    outputs: np.ndarray,
    *,
    confidence: float = CONFIDENCE,
    resamples: int = RESAMPLES,
    seed: int = 0,
) -> dict[str, tuple[float, float]]:
    """Returns the interval of each metric, from a bootstrap over rows.

    It lies between percentiles that are corrected for bias. Resamples where a metric is
    undefined, as the AUC of one class, do not count. Those of a proportion of 0 or 1
    are all alike, so its interval is Wilson's. Of more than 5,000 rows, metrics of
    probabilities and scores resample 5,000, or as many as have 100 of the rarer of two
    classes, and the spread is scaled by the root of the rows.

    Args:
      task: Determines the metrics: those of `metrics.compute`, and `calibration`.
      labels: int64[rows], or float[rows] of a regression.
      outputs: Probabilities float[rows, classes], or scores float[rows].
      confidence: Share of such intervals that hold the true value.
      resamples: Number of resamples.
      seed: Seed of the resamples.

    Returns:
      Low and high by metric; both are NaN if the metric is, or if the resamples are all
      alike.
    """
    intervals: dict[str, tuple[float, float]] = {}
    values: dict[str, float] = {}
    for divide in _divisions(task):
        (of_units,) = _values(divide(task, labels, outputs))
        samples = _bootstrap(divide, task, labels, [outputs], resamples, seed)
        for name, value in of_units.items():
            intervals[name] = _interval(value, samples[name][0], confidence)
        values |= of_units
    for name, trials in _trials(task, labels, outputs).items():
        if trials and values[name] in (0, 1):
            test = stats.binomtest(int(values[name]) * trials, trials)
            low, high = map(float, test.proportion_ci(confidence, method="wilson"))
            if name.partition("/")[0] == "f1":
                low, high = _f1(low), _f1(high)
            intervals[name] = (low, high)
    return intervals


def paired_test(
    task: TaskConfig,
    labels: np.ndarray,
    outputs_a: np.ndarray,
    outputs_b: np.ndarray,
    metric: str,
    *,
    resamples: int = RESAMPLES,
    seed: int = 0,
) -> PairedTest:
    """Tests whether two models differ in a metric on the same rows; see `paired_tests`.

    Args:
      task: Has the metric.
      labels: As in `paired_tests`.
      outputs_a: As in `paired_tests`.
      outputs_b: As in `paired_tests`.
      metric: One of those of `confidence_intervals`.
      resamples: As in `confidence_intervals`.
      seed: As in `confidence_intervals`.

    Raises:
      ValueError: The task has no such metric.
    """
    tests = paired_tests(
        task, labels, outputs_a, outputs_b, [metric], resamples=resamples, seed=seed
    )
    return tests[metric]


def paired_tests(
    task: TaskConfig,
    labels: np.ndarray,
    outputs_a: np.ndarray,
    outputs_b: np.ndarray,
    metrics: Collection[str],
    *,
    resamples: int = RESAMPLES,
    seed: int = 0,
) -> dict[str, PairedTest]:
    """Tests for each metric whether two models differ in it on the same rows.

    Accuracy has McNemar's exact test, and Bonett and Price's interval of 2012.
    Any other metric has the bootstrap of the difference; its p-value is twice the share
    of the resamples on the other side of 0.

    Args:
      task: Has the metrics.
      labels: int64[rows], or float[rows] of a regression.
      outputs_a: The first model's probabilities float[rows, classes], or scores
        float[rows].
      outputs_b: The second model's, of the same rows.
      metrics: Some of those of `confidence_intervals`.
      resamples: As in `confidence_intervals`.
      seed: As in `confidence_intervals`.

    Raises:
      ValueError: The task has no such metric.
    """
    outputs = [outputs_a, outputs_b]
    right = _count_right(task, labels, outputs)
    tests: dict[str, PairedTest] = {}
    names: list[str] = []
    for divide in _divisions(task):
        a, b = _values(divide(task, labels, *outputs))
        names += a
        chosen = [metric for metric in metrics if metric in a]
        samples: dict[str, np.ndarray] = {}
        if set(chosen) - {"accuracy"}:
            samples = _bootstrap(divide, task, labels, outputs, resamples, seed)
        for metric in chosen:
            values = a[metric], b[metric]
            interval = (
                _mcnemar(**right, rows=len(labels))
                if metric == "accuracy"
                else _test(np.subtract(*samples[metric][::-1]))
            )
            tests[metric] = _describe(metric, values, interval, len(labels), right)
    for metric in metrics:
        if metric not in names:
            raise ValueError(f"metric {metric!r} is not one of {', '.join(names)}")
    return {metric: tests[metric] for metric in metrics}


def _describe(
    metric: str,
    values: tuple[float, float],
    result: tuple[float, float, float],
    rows: int,
    right: dict[str, int],
) -> PairedTest:
    """Returns a test from the interval of the difference and the p-value."""
    difference = values[1] - values[0]
    if not math.isfinite(difference):
        result = (math.nan, math.nan, math.nan)
    low, high, p_value = result
    return PairedTest(
        metric=metric,
        rows=rows,
        a=values[0],
        b=values[1],
        difference=difference,
        low=low,
        high=high,
        p_value=p_value,
        method="McNemar" if metric == "accuracy" else "paired bootstrap",
        **right,
    )


def _count_right(
    task: TaskConfig, labels: np.ndarray, outputs: list[np.ndarray]
) -> dict[str, int]:
    """Counts the rows that one model alone predicts right; nothing of scores."""
    if task.is_regression:
        return {}
    a_right, b_right = (each.argmax(axis=1) == labels for each in outputs)
    return {
        "only_a_right": int(np.sum(a_right & ~b_right)),
        "only_b_right": int(np.sum(b_right & ~a_right)),
    }


def _divisions(task: TaskConfig) -> list[_Divide]:
    rows, cells = weighted_metrics.rows, weighted_metrics.cells
    return [rows] if task.is_regression else [cells, rows]


def _values(units: Units) -> list[dict[str, float]]:
    """Returns the metrics of each model without resampling."""
    weights = units.counts[:, None].astype(float)
    return [
        {name: float(value) for name, (value,) in metrics(weights).items()}
        for metrics in units.models
    ]


def _bootstrap(
    divide: _Divide,
    task: TaskConfig,
    labels: np.ndarray,
    outputs: list[np.ndarray],
    resamples: int,
    seed: int,
) -> dict[str, np.ndarray]:
    """Returns each metric of each resample, float64[models, resamples]."""
    random = np.random.default_rng(seed)
    units = part = divide(task, labels, *outputs)
    size = _resample_size(task, labels)
    if len(units.counts) > size:
        chosen = random.choice(len(labels), size, replace=False)
        part = divide(task, labels[chosen], *(each[chosen] for each in outputs))
    chunks: list[list[dict[str, np.ndarray]]] = [
        [metrics(weights) for metrics in part.models]
        for weights in _draw(part.counts, resamples, random)
    ]
    scale = math.sqrt(part.counts.sum() / units.counts.sum())
    centers = zip(_values(units), _values(part), strict=True)
    samples: dict[str, list[np.ndarray]] = {}
    for model, (of_all, of_part) in enumerate(centers):
        for name, center in of_part.items():
            drawn = np.concatenate([chunk[model][name] for chunk in chunks])
            scaled = of_all[name] + scale * (drawn - center)
            samples.setdefault(name, []).append(scaled if part is not units else drawn)
    return {name: np.stack(of_models) for name, of_models in samples.items()}


def _resample_size(task: TaskConfig, labels: np.ndarray) -> int:
    """Returns of how many rows a resample is, if there are more."""
    if not task.is_binary:
        return _ROWS
    positives = np.count_nonzero(labels == POSITIVE_CLASS)
    rarer = max(1, min(positives, len(labels) - positives))
    size = math.ceil(_ROWS_OF_A_CLASS * len(labels) / rarer)
    return min(max(size, _ROWS), _MOST_ROWS)


def _draw(
    counts: np.ndarray, resamples: int, random: np.random.Generator
) -> Iterator[np.ndarray]:
    """Yields how many rows of each unit the resamples draw, float64[units, chunk]."""
    size, rows = len(counts), int(counts.sum())
    step = max(1, _CHUNK // size)
    for start in range(0, resamples, step):
        chunk = min(step, resamples - start)
        if size < rows:
            yield random.multinomial(rows, counts / rows, chunk).T.astype(float)
            continue
        # Each unit is a row: much faster than a multinomial of so many outcomes.
        drawn = random.integers(size, size=(size, chunk)) * chunk + np.arange(chunk)
        weights = np.bincount(drawn.ravel(), minlength=size * chunk)
        yield weights.reshape(size, chunk).astype(float)


def _interval(
    value: float, samples: np.ndarray, confidence: float
) -> tuple[float, float]:
    """Returns the percentiles of resamples, corrected for their bias (Efron 1981).

    A resample lacks rows, and the macro F1 of many classes is lower without them.
    """
    samples = samples[np.isfinite(samples)]
    if not (math.isfinite(value) and len(samples)) or np.ptp(samples) == 0:
        return math.nan, math.nan
    below = np.mean(samples < value) + np.mean(samples == value) / 2
    bias = stats.norm.ppf(np.clip(below, 1 / len(samples), 1 - 1 / len(samples)))
    ends = stats.norm.ppf([(1 - confidence) / 2, (1 + confidence) / 2])
    low, high = np.quantile(samples, stats.norm.cdf(2 * bias + ends))
    return float(low), float(high)


def _test(samples: np.ndarray) -> tuple[float, float, float]:
    """Returns the interval of a difference and its p-value, from resamples."""
    samples = samples[np.isfinite(samples)]
    if not len(samples):
        return math.nan, math.nan, math.nan
    outside = (1 - CONFIDENCE) / 2
    low, high = np.quantile(samples, [outside, 1 - outside])
    # Those without resampling count as one of them: no p-value is 0.
    tail = min(np.sum(samples <= 0), np.sum(samples >= 0)) + 1
    return float(low), float(high), min(1.0, 2 * float(tail) / (len(samples) + 1))


def _mcnemar(
    only_a_right: int, only_b_right: int, rows: int
) -> tuple[float, float, float]:
    """Returns the interval of the difference in accuracy and its exact p-value."""
    discordant = only_a_right + only_b_right
    p_value = stats.binomtest(only_b_right, discordant).pvalue if discordant else 1.0
    # Adjusted as by Bonett and Price 2012: no width is 0, as that of equal models.
    a, b = (only_a_right + 1) / (rows + 2), (only_b_right + 1) / (rows + 2)
    error = math.sqrt((a + b - (b - a) ** 2) / (rows + 2))
    margin = float(stats.norm.ppf((1 + CONFIDENCE) / 2)) * error
    return b - a - margin, b - a + margin, float(p_value)


def _trials(
    task: TaskConfig, labels: np.ndarray, outputs: np.ndarray
) -> dict[str, int]:
    """Returns of how many rows each metric that is a proportion is one.

    F1 is none, but a function of one, the Jaccard index; both are 0 or 1 at once.
    """
    if task.classes is None:
        return {}
    predicted = outputs.argmax(axis=1)
    trials = {"accuracy": len(labels)}
    for index, name in enumerate(task.classes):
        masks = (predicted == index, labels == index)
        counts = [int(mask.sum()) for mask in (*masks, np.logical_or(*masks))]
        of_class = dict(zip(CLASS_METRICS, counts, strict=True))
        trials |= {class_metric(kind, name): n for kind, n in of_class.items()}
        if task.is_binary and index == POSITIVE_CLASS:
            trials |= of_class
    return trials


def _f1(jaccard: float) -> float:
    """Returns the F1 of a class whose Jaccard index is known."""
    return 2 * jaccard / (1 + jaccard)
