"""TFMA's metrics over whole batches, with the values that TFMA's own metrics have.

TFMA takes each row of each slice through each metric by itself, which costs more than a
model's prediction. Here an extract holds all rows of a batch that are in a slice, and
a metric is computed from all rows of a slice at once. Three metrics are those of GLUE
where TFMA's differ: its macro F1 counts a class as predicted if its probability is over
0.5, its Matthews correlation is NaN, not 0, if only one class is predicted, and it has
no rank correlation. Precision, recall and F1 of one class are the Trainer's, and
scikit-learn's: the most probable class is predicted, and a metric that counts nothing
is 0. TFMA's precision, recall and F1 of two classes are NaN then.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any, NamedTuple

import apache_beam as beam
import numpy as np
import tensorflow as tf
import tensorflow_model_analysis as tfma
import tf_keras
from scipy import special
from tensorflow_model_analysis.proto import config_pb2, metrics_for_slice_pb2

from modules.evaluation import metrics

CONFUSION_MATRIX = "multi_class_confusion_matrix_plot"

_ROWS_KEY = "_rows"  # TFMA hides names with a leading "_"
_ARRAYS = (tfma.constants.LABELS_KEY, tfma.constants.PREDICTIONS_KEY)
_DECISION = 0.5  # probability of the positive class from which it is predicted
_BUCKETS = 10_000  # of predictions, as in TFMA's AUC
_EPSILON = 1e-7  # by which TFMA's AUC widens its outer thresholds

Extracts = dict[str, Any]


class Rows(NamedTuple):
    """The rows of a slice.

    Attributes:
      labels: Classes or scores, float64[rows].
      predictions: Most probable classes or scores, float64[rows].
      values: Of two classes the probability of the positive one, of more classes the
        cross entropy, float64[rows].
    """

    labels: np.ndarray
    predictions: np.ndarray
    values: np.ndarray


class Statistic(tfma.metrics.Metric):
    """A metric of all rows of a slice at once.

    Args:
      statistic: One of `STATISTICS`.
      name: Name of the metric in the results; None is that of the statistic.
      class_id: The class that `precision`, `recall` and `binary_f1` are of; None is the
        positive one of two.
      code_fingerprint: Unused; in the configuration it lets TFX's cache see an edit of
        this module.

    Raises:
      ValueError: The statistic is none of them.
    """

    def __init__(
        self,
        statistic: str,
        name: str | None = None,
        class_id: int | None = None,
        code_fingerprint: str = "",
    ) -> None:
        if statistic not in STATISTICS:
            raise ValueError(
                f"statistic {statistic!r} is unknown; allowed are "
                f"{', '.join(STATISTICS)}"
            )
        super().__init__(
            tfma.metrics.merge_per_key_computations(_computations),
            name=name or statistic,
            statistic=statistic,
            class_id=class_id,
        )


def custom_extractors(
    eval_shared_model: Any,
    eval_config: config_pb2.EvalConfig,
    tensor_adapter_config: Any,
) -> list[tfma.extractors.Extractor]:
    """Returns TFMA's extractors, the last of which slices whole batches.

    TFX's Evaluator finds this function by its name.
    """
    extractors = tfma.default_extractors(
        eval_shared_model=eval_shared_model,
        eval_config=eval_config,
        tensor_adapter_config=tensor_adapter_config,
    )
    by_row = {
        tfma.extractors.UnbatchExtractor().stage_name,
        tfma.extractors.SLICE_KEY_EXTRACTOR_STAGE_NAME,
    }
    by_batch = [each for each in extractors if each.stage_name not in by_row]
    assert len(extractors) - len(by_batch) == len(by_row), extractors
    slices = tfma.extractors.Extractor(
        stage_name=tfma.extractors.SLICE_KEY_EXTRACTOR_STAGE_NAME,
        ptransform=beam.ParDo(SliceBatch(eval_config)),
    )
    return [*by_batch, slices]


class SliceBatch(beam.DoFn):
    """Splits the extracts of a batch into one for each slice that has rows in it."""

    def __init__(self, eval_config: config_pb2.EvalConfig) -> None:
        self._models = [spec.name for spec in eval_config.model_specs]
        self._slices = [list(spec.feature_keys) for spec in eval_config.slicing_specs]

    def process(self, batch: Extracts) -> Iterator[Extracts]:
        """Yields labels and predictions of each slice, each with all its rows."""
        arrays = {key: batch[key] for key in _ARRAYS}
        size = len(tf.nest.flatten(arrays)[0])
        masks: dict[tuple[tuple[str, str], ...], np.ndarray] = {}
        for keys in self._slices:
            for features in self._features(batch):
                for slice_key, mask in _group(features, keys, size):
                    masks[slice_key] = masks.get(slice_key, False) | mask
        for slice_key, mask in masks.items():
            rows = tf.nest.map_structure(lambda array, mask=mask: array[mask], arrays)
            slice_keys = np.empty(1, dtype=object)
            slice_keys[0] = slice_key
            yield {**rows, tfma.constants.SLICE_KEY_TYPES_KEY: slice_keys}

    def _features(self, batch: Extracts) -> list[Mapping[str, np.ndarray]]:
        """Returns the slice features, which each model's own code computes."""
        features = batch[tfma.constants.TRANSFORMED_FEATURES_KEY]
        by_model = [features[name] for name in self._models if name in features]
        return by_model or [features]


def _group(
    features: Mapping[str, np.ndarray], keys: list[str], size: int
) -> Iterator[tuple[tuple[tuple[str, str], ...], np.ndarray]]:
    """Yields the slices by some features, and which rows they have, bool[size]."""
    columns = [np.reshape(features[key], [size]) for key in keys]
    for values in itertools.product(*map(np.unique, columns)):
        mask = np.ones(size, bool)
        for column, value in zip(columns, values, strict=True):
            mask &= column == value
        if mask.any():
            yield tuple(zip(keys, map(tf.compat.as_str, values), strict=True)), mask


def _computations(
    name: str,
    statistic: str,
    class_id: int | None = None,
    eval_config: config_pb2.EvalConfig | None = None,
    model_name: str = "",
    output_name: str = "",
    sub_key: tfma.metrics.SubKey | None = None,
    example_weighted: bool = False,
) -> list[tfma.metrics.MetricComputation | tfma.metrics.DerivedMetricComputation]:
    names: dict[str, Any] = {
        "model_name": model_name,
        "output_name": output_name,
        "example_weighted": example_weighted,
    }
    gather = gather_rows(eval_config, **names)
    (rows_key,) = gather.keys
    if statistic == CONFUSION_MATRIX:
        key = tfma.metrics.PlotKey(name=name, **names)
    else:
        key = tfma.metrics.MetricKey(name=name, sub_key=sub_key, **names)

    arguments = () if class_id is None else (class_id,)

    def result(computed: dict[tfma.metrics.MetricKey, Any]) -> dict:
        return {key: STATISTICS[statistic](Rows(*computed[rows_key]), *arguments)}

    return [gather, tfma.metrics.DerivedMetricComputation(keys=[key], result=result)]


def gather_rows(
    eval_config: config_pb2.EvalConfig, **names: str | bool
) -> tfma.metrics.MetricComputation:
    """Returns the computation of the columns of `Rows`, float64[3, rows].

    TFMA runs computations with the same key and combiner once for all metrics.

    Args:
      eval_config: Describes the models.
      **names: Further parts of the key, `model_name` among them.
    """
    key = tfma.metrics.MetricKey(name=_ROWS_KEY, **names)
    return tfma.metrics.MetricComputation(
        keys=[key], preprocessors=None, combiner=_GatherRows(key, eval_config)
    )


class _GatherRows(beam.CombineFn):
    """Collects the columns of `Rows`, 24 bytes a row."""

    def __init__(
        self, key: tfma.metrics.MetricKey, eval_config: config_pb2.EvalConfig
    ) -> None:
        self._key = key
        self._eval_config = eval_config

    def create_accumulator(self) -> list[np.ndarray]:
        return []

    def add_input(
        self, accumulator: list[np.ndarray], element: tfma.metrics.StandardMetricInputs
    ) -> list[np.ndarray]:
        (spec,) = (
            spec
            for spec in self._eval_config.model_specs
            if not self._key.model_name or spec.name == self._key.model_name
        )
        labels = np.reshape(_choose(element.label, spec.name, spec.label_key), [-1])
        outputs = _choose(element.prediction, spec.name, spec.prediction_key)
        rows = _columns(labels, np.reshape(outputs, [len(labels), -1]))
        return [*accumulator, np.stack(rows)]

    def merge_accumulators(
        self, accumulators: Iterable[list[np.ndarray]]
    ) -> list[np.ndarray]:
        return list(itertools.chain.from_iterable(accumulators))

    def compact(self, accumulator: list[np.ndarray]) -> list[np.ndarray]:
        return [np.concatenate(accumulator, axis=1)] if accumulator else []

    def extract_output(
        self, accumulator: list[np.ndarray]
    ) -> dict[tfma.metrics.MetricKey, np.ndarray]:
        (rows,) = self.compact(accumulator)
        return {self._key: rows}


def _choose(values: Any, *names: str) -> np.ndarray:
    """Returns the array of a model and an output, where there are several."""
    for name in names:
        if isinstance(values, Mapping) and name in values:
            values = values[name]
    return np.asarray(values)


def _columns(labels: np.ndarray, outputs: np.ndarray) -> Rows:
    """Returns the columns of a batch, of outputs float[rows, classes or 1]."""
    classes = outputs.shape[1]
    if classes == 1:
        return Rows(
            labels.astype(float), outputs[:, 0].astype(float), np.zeros(labels.shape)
        )
    if classes == 2:
        values = outputs[:, metrics.POSITIVE_CLASS]
    else:
        values = tf_keras.losses.sparse_categorical_crossentropy(
            labels, outputs
        ).numpy()
    predictions = outputs.argmax(axis=1)
    return Rows(labels.astype(float), predictions.astype(float), values.astype(float))


def _counts(rows: Rows, class_id: int | None) -> tuple[int, int, int]:
    """Returns true positives, false positives and false negatives of a class."""
    if class_id is None:
        predicted = rows.values > _DECISION
        actual = rows.labels == metrics.POSITIVE_CLASS
    else:
        predicted, actual = rows.predictions == class_id, rows.labels == class_id
    true = int(np.sum(predicted & actual))
    return true, int(np.sum(predicted)) - true, int(np.sum(actual)) - true


def _divide(numerator: float, denominator: float, class_id: int | None = None) -> float:
    if denominator > 0:
        return numerator / denominator
    return math.nan if class_id is None else 0.0


def _f1(rows: Rows, class_id: int | None = None) -> float:
    true, false, missed = _counts(rows, class_id)
    return _divide(2 * true, 2 * true + false + missed, class_id)


def _precision(rows: Rows, class_id: int | None = None) -> float:
    true, false, _ = _counts(rows, class_id)
    return _divide(true, true + false, class_id)


def _recall(rows: Rows, class_id: int | None = None) -> float:
    true, _, missed = _counts(rows, class_id)
    return _divide(true, true + missed, class_id)


def _auc(rows: Rows) -> float:
    """Returns the area under the ROC curve, of TFMA's buckets and thresholds."""
    if not np.all(np.isfinite(rows.values)):
        return math.nan
    # With the 1 that TFMA adds, which rounds a value next to a bound in the same way.
    buckets = np.clip(np.floor(rows.values * _BUCKETS + 1) - 1, -1, _BUCKETS)
    inner = np.arange(1, _BUCKETS - 1) / (_BUCKETS - 1)
    thresholds = np.concatenate([[0], inner + _EPSILON, [1 + 2 * _EPSILON]])
    lower = np.where(buckets < _BUCKETS, buckets / _BUCKETS, np.inf)
    indices = np.maximum(np.searchsorted(thresholds, lower, side="right") - 1, 0)
    positive = rows.labels == metrics.POSITIVE_CLASS
    rates = []
    for group in (~positive, positive):
        counts = np.bincount(indices[group], minlength=_BUCKETS)
        above = np.cumsum(counts[::-1])[::-1]
        above[-1] = 0  # no probability is above the last threshold
        rates.append(above / max(int(group.sum()), 1))
    false_positives, recall = rates
    return float(np.sum(-np.diff(false_positives) * (recall[:-1] + recall[1:]) / 2))


def _cross_entropy(rows: Rows) -> float:
    # TFMA's is NaN if a probability is 0 or 1.
    likelihoods = special.xlogy(rows.labels, rows.values)
    likelihoods += special.xlog1py(1 - rows.labels, -rows.values)
    return float(-np.mean(likelihoods))


def _calibration(rows: Rows) -> float:
    return _divide(float(np.sum(rows.values)), float(np.sum(rows.labels)))


def _confusion_matrix(
    rows: Rows,
) -> metrics_for_slice_pb2.MultiClassConfusionMatrixAtThresholds:
    plot = metrics_for_slice_pb2.MultiClassConfusionMatrixAtThresholds()
    matrix = plot.matrices.add(threshold=0.0)
    pairs = np.stack([rows.labels, rows.predictions], axis=1).astype(int)
    cells, counts = np.unique(pairs, axis=0, return_counts=True)
    for (actual, predicted), count in zip(cells, counts, strict=True):
        matrix.entries.add(
            actual_class_id=actual,
            predicted_class_id=predicted,
            num_weighted_examples=count,
        )
    return plot


def _of_predictions(function: Callable[..., float]) -> Callable[[Rows], float]:
    return lambda rows: function(rows.labels, rows.predictions)


STATISTICS: dict[str, Callable[..., Any]] = {
    "example_count": lambda rows: float(len(rows.labels)),
    CONFUSION_MATRIX: _confusion_matrix,
    # Of two classes; `binary_f1`, `precision` and `recall` also of one of many.
    "binary_accuracy": lambda rows: float(
        np.mean((rows.values > _DECISION) == (rows.labels == metrics.POSITIVE_CLASS))
    ),
    "binary_f1": _f1,
    "precision": _precision,
    "recall": _recall,
    "auc": _auc,
    "binary_cross_entropy": _cross_entropy,
    "calibration": _calibration,
    "matthews": _of_predictions(metrics.matthews),
    # Of more classes.
    "accuracy": _of_predictions(
        lambda labels, classes: float(np.mean(labels == classes))
    ),
    "macro_f1": _of_predictions(metrics.macro_f1),
    "cross_entropy": lambda rows: float(np.mean(rows.values)),
    # Of scores.
    "pearson": _of_predictions(metrics.pearson),
    "spearman": _of_predictions(metrics.spearman),
    "pearson_spearman": _of_predictions(metrics.pearson_spearman),
    "mse": _of_predictions(
        lambda labels, scores: float(np.mean((labels - scores) ** 2))
    ),
    "mae": _of_predictions(
        lambda labels, scores: float(np.mean(np.abs(labels - scores)))
    ),
}
