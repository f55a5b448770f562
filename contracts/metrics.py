"""The table of metrics: what each is, which tasks have it, and how it is computed.

A metric is computed from four numbers per row and the weights of the rows, for many
samples at once. The Trainer and the Evaluator weigh all rows equally; a bootstrap
weighs a row by how often a resample draws it. The values are those of scikit-learn and
SciPy.
"""

from __future__ import annotations

import dataclasses
import functools
import math
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from typing import Literal

import numpy as np

POSITIVE_CLASS = 1  # of two
CONFIDENCE = 0.95  # of intervals
VALIDATION_LOSS = "validation_loss"  # as the Model Garden's trainer names it

# The least probability in the loss is that of Keras.
_LEAST_LIKELIHOOD = 1e-7

# See `Rows.of`; those of several labels are in the order of the classes.
Threshold = float | Sequence[float] | None

Kind = Literal["binary", "multiclass", "multilabel", "regression"]
_CLASSES: tuple[Kind, ...] = ("binary", "multiclass", "multilabel")
_ALL: tuple[Kind, ...] = (*_CLASSES, "regression")


class Groups:
    """Rows grouped by equal values, in ascending order.

    Args:
      values: float64[rows], at least one.
    """

    def __init__(self, values: np.ndarray) -> None:
        self.values, self._group = np.unique(values, return_inverse=True)
        self._order = np.argsort(self._group, kind="stable")
        indices = np.arange(len(self.values))
        self._starts = np.searchsorted(self._group[self._order], indices)

    def sum(self, weights: np.ndarray) -> np.ndarray:
        """Sums float64[rows, samples] by group, float64[groups, samples]."""
        return np.add.reduceat(weights[self._order], self._starts)

    def ranks(self, weights: np.ndarray) -> np.ndarray:
        """Returns the mean rank of each row, up to a constant, shaped as `weights`."""
        drawn = self.sum(weights)
        return (np.cumsum(drawn, axis=0) - drawn / 2)[self._group]


class Ranking:
    """The ranks of the positive rows among the others, for the AUC.

    Args:
      probabilities: float64[rows].
      is_positive: bool[rows].
    """

    def __init__(self, probabilities: np.ndarray, is_positive: np.ndarray) -> None:
        values = np.unique(probabilities[is_positive])
        self._size = len(values) + 1
        # A positive row is at its value. Another one is half below the first value from
        # its own on, and half below the first value above its own.
        first, second = (
            np.where(is_positive, 0, self._size) + values.searchsorted(probabilities, s)
            for s in ("left", "right")
        )
        second[is_positive] = first[is_positive]
        has_equal = not np.array_equal(first, second)
        self._groups = list(map(Groups, (first, second) if has_equal else (first,)))

    def count(self, weights: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Returns the pairs that are ranked right, and all pairs, float64[samples].

        Args:
          weights: float64[rows, samples].
        """
        sums = np.zeros((2 * self._size, weights.shape[1]))
        for groups in self._groups:
            sums[groups.values] += groups.sum(weights) / len(self._groups)
        positive, below = sums[: self._size], sums[self._size :].cumsum(axis=0)
        right = np.einsum("vs,vs->s", positive, below)
        return right, positive.sum(axis=0) * below[-1]


@dataclasses.dataclass(frozen=True)
class Rows:
    """The values of each row that metrics read.

    Where a row has several labels, the first three are float64[rows, classes].

    Attributes:
      labels: Classes or scores, float64[rows]; of several labels 1 for each that the
        row has, and 0.
      predictions: The predicted classes, or scores, float64[rows]; of several labels 1
        for each predicted one, and 0. NaN where the model's output is not finite, whose
        argmax would be class 0.
      probabilities: Probability of the positive class of two, or of the predicted class
        of more than two, float64[rows]; of each of several labels; 0 for scores.
      losses: Cross-entropy, its mean over several labels, or squared error,
        float64[rows].
      classes: The number of classes; 0 for scores.
    """

    labels: np.ndarray
    predictions: np.ndarray
    probabilities: np.ndarray
    losses: np.ndarray
    classes: int = dataclasses.field(kw_only=True)

    @classmethod
    def of(
        cls,
        labels: np.ndarray,
        outputs: np.ndarray,
        losses: np.ndarray | None = None,
        *,
        threshold: Threshold = None,
        predicted: np.ndarray | None = None,
    ) -> Rows:
        """Returns the rows of a model's outputs.

        Args:
          labels: int[rows], int[rows, classes] of several labels, or float[rows] of a
            regression.
          outputs: Probabilities float[rows, classes], or scores float[rows].
          losses: float[rows]; None computes them from the outputs.
          threshold: The probability from which the positive class of two is predicted,
            or that from which each of several labels is. None predicts the most
            probable class, or each label with a probability of 0.5.
          predicted: The predicted classes of a model that has decided, float or int,
            shaped as the labels.
        """
        if labels.ndim == 2:
            classes = labels.shape[1]
            if predicted is None:
                predicted = predict_labels(outputs, threshold)
            is_finite = np.isfinite(outputs).all(axis=1)
            predictions = np.where(is_finite[:, np.newaxis], predicted, np.nan)
            probabilities = outputs.astype(float)
            likelihoods = np.where(labels == 1, probabilities, 1 - probabilities)
            of_outputs = -np.log(np.maximum(likelihoods, _LEAST_LIKELIHOOD))
            of_outputs = of_outputs.mean(axis=1)
        elif outputs.ndim == 1:
            classes = 0
            predictions, probabilities = outputs.astype(float), np.zeros(len(outputs))
            of_outputs = (predictions - labels) ** 2
        else:
            classes = outputs.shape[1]
            if predicted is None:
                predicted = predict_classes(outputs, threshold)
            is_finite = np.isfinite(outputs).all(axis=1)
            predicted = np.where(is_finite, predicted, 0).astype(int)
            predictions = np.where(is_finite, predicted, np.nan)
            shown = np.full(len(outputs), POSITIVE_CLASS)
            probabilities = _choose(outputs, shown if classes == 2 else predicted)
            likelihoods = _choose(outputs, labels.astype(int))
            of_outputs = -np.log(np.maximum(likelihoods, _LEAST_LIKELIHOOD))
            of_outputs[~is_finite] = np.nan
        losses = of_outputs if losses is None else losses.astype(float)
        return cls(
            labels.astype(float), predictions, probabilities, losses, classes=classes
        )

    @classmethod
    def concatenate(cls, parts: Sequence[Rows]) -> Rows:
        """Joins rows of one model, at least one part."""
        columns = zip(*(part._columns for part in parts), strict=True)
        return cls(*map(np.concatenate, columns), classes=parts[0].classes)

    def __len__(self) -> int:
        return len(self.labels)

    def take(self, chosen: np.ndarray) -> Rows:
        """Returns the rows of indices int[chosen]."""
        columns = (column[chosen] for column in self._columns)
        return Rows(*columns, classes=self.classes)

    @property
    def _columns(self) -> tuple[np.ndarray, ...]:
        return self.labels, self.predictions, self.probabilities, self.losses

    @property
    def has_label_sets(self) -> bool:
        """Whether a row has several labels, or none."""
        return self.labels.ndim == 2

    @functools.cached_property
    def is_right(self) -> np.ndarray:
        """Whether each row's predicted class, or all of its labels, are right."""
        is_equal = self.labels == self.predictions
        return is_equal.all(axis=1) if self.has_label_sets else is_equal

    @functools.cached_property
    def is_finite(self) -> bool:
        """Whether all outputs are finite."""
        return bool(np.isfinite(self.predictions).all())

    @functools.cached_property
    def by_label(self) -> Groups:
        """The rows by label."""
        return Groups(self.labels)

    @functools.cached_property
    def by_prediction(self) -> Groups:
        """The rows by predicted class or score."""
        return Groups(self.predictions)

    @functools.cached_property
    def rankings(self) -> list[Ranking]:
        """The rows with the positive class, or with each label, among the others."""
        is_positive = self.labels == POSITIVE_CLASS
        if self.has_label_sets:
            return list(map(Ranking, self.probabilities.T, is_positive.T))
        return [Ranking(self.probabilities, is_positive)]


def of_two_classes(positive: np.ndarray) -> np.ndarray:
    """Returns the probabilities of two classes, float[rows, 2].

    Args:
      positive: The probability of the positive one, float[rows].
    """
    return np.stack([1 - positive, positive], axis=1)


def predict_labels(outputs: np.ndarray, threshold: Threshold = None) -> np.ndarray:
    """Returns 1 for each predicted label of several and 0, int64[rows, classes].

    Args:
      outputs: Probabilities float[rows, classes].
      threshold: As in `Rows.of`.
    """
    least = 0.5 if threshold is None else threshold
    return _reaches(outputs, least).astype(int)


def predict_classes(outputs: np.ndarray, threshold: Threshold = None) -> np.ndarray:
    """Returns the predicted classes, int64[rows].

    Args:
      outputs: Probabilities float[rows, classes].
      threshold: As in `Rows.of`.
    """
    if threshold is None:
        return outputs.argmax(axis=1)
    return _reaches(outputs[:, POSITIVE_CLASS], threshold).astype(int)


class Sample:
    """Rows with weights float64[rows, samples], and quantities that metrics share."""

    def __init__(self, rows: Rows, weights: np.ndarray) -> None:
        self.rows = rows
        self.weights = weights

    def mean(self, values: np.ndarray) -> np.ndarray:
        """Returns the weighted means of float64[rows], float64[samples]."""
        return _ratio(values @ self.weights, self.total, np.nan)

    @functools.cached_property
    def total(self) -> np.ndarray:
        """The sum of the weights, float64[samples]."""
        return self.weights.sum(axis=0)

    @functools.cached_property
    def actual(self) -> np.ndarray:
        """The weight of each class, float64[classes, samples]."""
        if self.rows.has_label_sets:
            return self.rows.labels.T @ self.weights
        return self._by_class(self.rows.by_label, self.weights)

    @functools.cached_property
    def predicted(self) -> np.ndarray:
        """The weight that each class is predicted for, float64[classes, samples]."""
        if self.rows.has_label_sets:
            return self.rows.predictions.T @ self.weights
        return self._by_class(self.rows.by_prediction, self.weights)

    @functools.cached_property
    def right(self) -> np.ndarray:
        """The weight of each class's right predictions, float64[classes, samples]."""
        if self.rows.has_label_sets:
            return (self.rows.labels * self.rows.predictions).T @ self.weights
        weights = self.weights * self.rows.is_right[:, None]
        return self._by_class(self.rows.by_label, weights)

    @functools.cached_property
    def f1(self) -> np.ndarray:
        """The F1 of each class, 0 if it is absent, float64[classes, samples]."""
        return _ratio(2 * self.right, self.actual + self.predicted)

    @functools.cached_property
    def pearson(self) -> np.ndarray:
        """Pearson's correlation; NaN if labels or scores are constant."""
        # Differences from the first row are exactly 0 for a constant. Those from the
        # mean would be rounded.
        labels, scores = (
            (values - values[0])[:, None]
            for values in (self.rows.labels, self.rows.predictions)
        )
        return self._correlation(labels, scores)

    @functools.cached_property
    def spearman(self) -> np.ndarray:
        """Spearman's correlation; NaN if labels or scores are constant."""
        groups = (self.rows.by_label, self.rows.by_prediction)
        return self._correlation(*(group.ranks(self.weights) for group in groups))

    def _by_class(self, groups: Groups, weights: np.ndarray) -> np.ndarray:
        result = np.zeros((self.rows.classes, weights.shape[1]))
        result[groups.values.astype(int)] = groups.sum(weights)
        return result

    def _correlation(self, x: np.ndarray, y: np.ndarray) -> np.ndarray:
        """Correlates float64[rows, 1 or samples]; constants must be exact."""
        x, y = (
            values - np.einsum("nr,nr->r", self.weights, values) / self.total
            for values in (x, y)
        )
        weighted = self.weights * x
        covariance = np.einsum("nr,nr->r", weighted, y)
        x_variance = np.einsum("nr,nr->r", weighted, x)
        y_variance = np.einsum("nr,nr,nr->r", self.weights, y, y)
        return _ratio(covariance, np.sqrt(x_variance * y_variance), np.nan)


@dataclasses.dataclass(frozen=True)
class Metric:
    """An entry of the table.

    Attributes:
      name: Its name. In a task, a metric of one class is `recall/CLASS`.
      kinds: The kinds of task that have it.
      compute: Computes it from a `Sample`, and from the class if `of_class`,
        float64[samples].
      higher_is_better: None if neither higher nor lower is better. Thresholds and
        `task.metric` may name metrics for which it is True.
      low: Its least value.
      high: Its greatest value.
      needs_probabilities: Whether it needs more than labels and predicted classes.
      of_class: Whether it is computed for each class. For two classes, the name without
        a class is that of the positive class.
      deciding_rows: The rows that determine how precise it is.
      is_share_of_right: Whether it is the share of rows that are predicted right.
        McNemar's test compares two models by it.
      trials: The denominator of a proportion; called like `compute`.
      of_proportion: Converts the proportion with these trials to the metric.
      hub_name: Its name in https://huggingface.co/metrics; empty if it is not there.
      class_id: The class that it is bound to in a task.
      class_name: The name of that class.
    """

    name: str
    kinds: tuple[Kind, ...]
    compute: Callable[..., np.ndarray]
    higher_is_better: bool | None = True
    low: float = 0.0
    high: float = 1.0
    needs_probabilities: bool = False
    of_class: bool = False
    deciding_rows: Literal["all", "class", "smaller class", "every class", "labels"] = (
        "all"
    )
    is_share_of_right: bool = False
    trials: Callable[..., np.ndarray] | None = None
    of_proportion: Callable[[float], float] = float
    hub_name: str = ""
    class_id: int | None = None
    class_name: str = ""

    def values(self, sample: Sample) -> np.ndarray:
        """Returns the metric of each sample, float64[samples]."""
        return self.compute(sample, *self._arguments)

    def count_trials(self, sample: Sample) -> np.ndarray | None:
        """Returns the trials of each sample; None if the metric has no trials."""
        return None if self.trials is None else self.trials(sample, *self._arguments)

    @property
    def _arguments(self) -> tuple[int, ...]:
        return () if self.class_id is None else (self.class_id,)


def _micro_f1(sample: Sample) -> np.ndarray:
    return _ratio(
        2 * sample.right.sum(axis=0), (sample.actual + sample.predicted).sum(axis=0)
    )


def _of_jaccard(jaccard: float) -> float:
    """Returns F1, which is no proportion but a function of one, the Jaccard index."""
    return 2 * jaccard / (1 + jaccard)


def _hamming_loss(sample: Sample) -> np.ndarray:
    wrong = (sample.actual + sample.predicted - 2 * sample.right).mean(axis=0)
    return _ratio(wrong, sample.total, np.nan)


def _macro_f1(sample: Sample) -> np.ndarray:
    # As in scikit-learn, the mean is over the classes that are labels or predicted.
    occurs = sample.actual + sample.predicted > 0
    return _ratio(sample.f1.sum(axis=0), occurs.sum(axis=0).astype(float), np.nan)


def _auc(sample: Sample, label: int = 0) -> np.ndarray:
    """Returns the share of pairs, one row of each class, that are ranked right."""
    right, pairs = sample.rows.rankings[label].count(sample.weights)
    return _ratio(right, pairs, np.nan)


def _matthews(sample: Sample) -> np.ndarray:
    """Returns Matthews' correlation; 0 if labels or predictions are constant."""
    actual, predicted, total = sample.actual, sample.predicted, sample.total
    covariance = sample.right.sum(axis=0) * total - (actual * predicted).sum(axis=0)
    variances = [total**2 - (weights**2).sum(axis=0) for weights in (actual, predicted)]
    return _ratio(covariance, np.sqrt(variances[0] * variances[1]))


def _calibration(sample: Sample) -> np.ndarray:
    """Returns the predicted share of positive rows divided by the actual share."""
    expected = sample.rows.probabilities @ sample.weights
    return _ratio(expected, sample.actual[POSITIVE_CLASS], np.nan)


METRICS: tuple[Metric, ...] = (
    Metric(
        "loss",
        _ALL,
        lambda sample: sample.mean(sample.rows.losses),
        higher_is_better=False,
        high=math.inf,
        needs_probabilities=True,
    ),
    Metric(
        "micro_f1",
        ("multilabel",),
        _micro_f1,
        deciding_rows="labels",
        trials=lambda sample: (sample.actual + sample.predicted - sample.right).sum(
            axis=0
        ),
        of_proportion=_of_jaccard,
        hub_name="f1",
    ),
    # As in scikit-learn, which counts 0 for a label that is absent.
    Metric(
        "macro_f1",
        ("multilabel",),
        lambda sample: sample.f1.mean(axis=0),
        deciding_rows="every class",
        hub_name="f1",
    ),
    # All labels of a row must be right.
    Metric(
        "accuracy",
        _CLASSES,
        lambda sample: sample.mean(sample.rows.is_right),
        is_share_of_right=True,
        trials=lambda sample: sample.total,
        hub_name="accuracy",
    ),
    Metric(
        "precision",
        _CLASSES,
        lambda sample, c: _ratio(sample.right[c], sample.predicted[c]),
        of_class=True,
        deciding_rows="class",
        trials=lambda sample, c: sample.predicted[c],
        hub_name="precision",
    ),
    Metric(
        "recall",
        _CLASSES,
        lambda sample, c: _ratio(sample.right[c], sample.actual[c]),
        of_class=True,
        deciding_rows="class",
        trials=lambda sample, c: sample.actual[c],
        hub_name="recall",
    ),
    Metric(
        "f1",
        _CLASSES,
        lambda sample, c: sample.f1[c],
        of_class=True,
        deciding_rows="class",
        trials=lambda sample, c: (
            sample.actual[c] + sample.predicted[c] - sample.right[c]
        ),
        of_proportion=_of_jaccard,
        hub_name="f1",
    ),
    Metric(
        "f1",
        ("multiclass",),
        _macro_f1,
        deciding_rows="every class",
        hub_name="f1",
    ),
    Metric(
        "auc",
        ("binary",),
        _auc,
        needs_probabilities=True,
        deciding_rows="smaller class",
        hub_name="roc_auc",
    ),
    Metric(
        "auc",
        ("multilabel",),
        _auc,
        needs_probabilities=True,
        of_class=True,
        deciding_rows="smaller class",
        hub_name="roc_auc",
    ),
    Metric(
        "hamming_loss",
        ("multilabel",),
        _hamming_loss,
        higher_is_better=False,
    ),
    Metric(
        "matthews", ("binary",), _matthews, low=-1.0, hub_name="matthews_correlation"
    ),
    Metric(
        "calibration",
        ("binary",),
        _calibration,
        higher_is_better=None,
        high=math.inf,
        needs_probabilities=True,
    ),
    # The mean of both correlations, by which GLUE ranks STS-B.
    Metric(
        "pearson_spearman",
        ("regression",),
        lambda sample: (sample.pearson + sample.spearman) / 2,
        low=-1.0,
    ),
    Metric(
        "pearson",
        ("regression",),
        lambda sample: sample.pearson,
        low=-1.0,
        hub_name="pearsonr",
    ),
    Metric(
        "spearman",
        ("regression",),
        lambda sample: sample.spearman,
        low=-1.0,
        hub_name="spearmanr",
    ),
    Metric(
        "mse",
        ("regression",),
        lambda sample: sample.mean((sample.rows.labels - sample.rows.predictions) ** 2),
        higher_is_better=False,
        high=math.inf,
        hub_name="mse",
    ),
    Metric(
        "mae",
        ("regression",),
        lambda sample: sample.mean(
            np.abs(sample.rows.labels - sample.rows.predictions)
        ),
        higher_is_better=False,
        high=math.inf,
        hub_name="mae",
    ),
)

# The kinds of `class_metric` that any task with classes has.
CLASS_METRICS = tuple(
    metric.name for metric in METRICS if metric.of_class and metric.kinds == _CLASSES
)


def class_metrics(kind: Kind) -> tuple[str, ...]:
    """Returns the kinds of `class_metric` that a kind of task has."""
    return tuple(m.name for m in METRICS if m.of_class and kind in m.kinds)


def class_metric(kind: str, name: str) -> str:
    """Returns the name of a metric of one class, as `recall/CLASS`."""
    return f"{kind}/{name}"


def for_kind(kind: Kind, names: Sequence[str] = ()) -> Mapping[str, Metric]:
    """Returns the metrics of a kind of task by name, those of one class last."""
    return _for_kind(kind, tuple(names))


def deciding(kind: Kind, names: Sequence[str] = ()) -> list[str]:
    """Returns the metrics that thresholds and `task.metric` may name.

    Args:
      kind: As in `for_kind`. The first metric is the default.
      names: As in `for_kind`.
    """
    table = for_kind(kind, names)
    return [name for name, metric in table.items() if metric.higher_is_better]


def shorten(names: Iterable[str]) -> str:
    """Returns names for a message, those of one class as `recall/CLASS`."""
    parts = (name.partition("/") for name in names)
    shown = [f"{kind}/CLASS" if slash else kind for kind, slash, _ in parts]
    return ", ".join(dict.fromkeys(shown))


def compute(
    classes: Sequence[str] | None, rows: Rows, names: Collection[str] | None = None
) -> dict[str, float]:
    """Computes metrics of rows that all have the same weight.

    Args:
      classes: The names of the classes or labels; None for a regression.
      rows: The rows.
      names: The metrics; None computes all of the task.

    Returns:
      Values by name. All are NaN without rows, or if an output is not finite.
    """
    kind: Kind = "multilabel" if rows.has_label_sets else "regression"
    if classes is not None and not rows.has_label_sets:
        kind = "binary" if len(classes) == 2 else "multiclass"
    table = for_kind(kind, classes or ())
    chosen = list(table) if names is None else names
    if not len(rows) or not rows.is_finite:
        return dict.fromkeys(chosen, math.nan)
    sample = Sample(rows, np.ones((len(rows), 1)))
    return {name: float(table[name].values(sample)[0]) for name in chosen}


def score(value: float | None) -> float:
    """Returns a metric for ranking: NaN and None, its value in JSON, rank last."""
    return -math.inf if value is None or math.isnan(value) else value


def rank(value: float | None, loss: float | None) -> tuple[float, float]:
    """Returns the key by which models are ranked; the highest is the best.

    Args:
      value: The deciding metric; see `score`.
      loss: The validation loss. Of equal metrics, the lower loss ranks higher.
    """
    return score(value), score(None if loss is None else -loss)


@functools.lru_cache(maxsize=16)
def _for_kind(kind: Kind, names: tuple[str, ...]) -> dict[str, Metric]:
    table: dict[str, Metric] = {}
    for metric in METRICS:
        if kind not in metric.kinds:
            continue
        if not metric.of_class:
            table[metric.name] = metric
        elif kind == "binary" and names:
            table[metric.name] = _of_one_class(metric, names, POSITIVE_CLASS)
    for index, class_name in enumerate(names):
        for metric in METRICS:
            if metric.of_class and kind in metric.kinds:
                name = class_metric(metric.name, class_name)
                bound = _of_one_class(metric, names, index)
                table[name] = dataclasses.replace(bound, name=name, hub_name="")
    return table


def _of_one_class(metric: Metric, classes: Sequence[str], index: int) -> Metric:
    return dataclasses.replace(metric, class_id=index, class_name=classes[index])


def _choose(outputs: np.ndarray, classes: np.ndarray) -> np.ndarray:
    """Returns the probability of a class int[rows] in each row, float64[rows]."""
    return np.take_along_axis(outputs, classes[:, None], axis=1)[:, 0].astype(float)


def _reaches(
    probabilities: np.ndarray, threshold: float | Sequence[float]
) -> np.ndarray:
    """Returns whether probabilities reach a threshold, in float32 as in the graph."""
    return probabilities.astype(np.float32) >= np.asarray(threshold, np.float32)


def _ratio(
    numerator: np.ndarray, denominator: np.ndarray, of_nothing: float = 0.0
) -> np.ndarray:
    """Returns the quotient, or `of_nothing` where the denominator is 0."""
    result = np.full(numerator.shape, of_nothing)
    return np.divide(numerator, denominator, out=result, where=denominator > 0)
