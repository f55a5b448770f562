"""The metrics of `contracts.metrics` as a metric of TFMA, over whole batches.

TFMA computes each metric from single rows of each slice, which takes longer than the
model's predictions. Here an extract has all rows of a batch that are in a slice, and
the metrics are computed from all rows of a slice at once. TFMA's own metrics also
differ from scikit-learn's. Its AUC uses buckets. Its macro F1 counts a class as
predicted if its probability is above 0.5. Its precision, recall, F1 and Matthews'
correlation are NaN where scikit-learn's are 0. It has no rank correlation.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Iterator, Mapping
from typing import Any

import apache_beam as beam
import numpy as np
import tensorflow as tf
import tensorflow_model_analysis as tfma
from tensorflow.core.example.example_pb2 import Example
from tensorflow_model_analysis.proto import config_pb2, metrics_for_slice_pb2

from contracts import metrics
from contracts.metrics import Rows
from contracts.records.evaluation import EXAMPLE_COUNT
from contracts.task.definition import TaskConfig
from contracts.versions import exported_model
from modules.data.slice_columns import read_value

CONFUSION_MATRIX = "multi_class_confusion_matrix_plot"

Extracts = dict[str, Any]


class Metrics(tfma.metrics.Metric):
    """The metrics of a task, `example_count`, and the confusion matrix of classes.

    Args:
      task: A `TaskConfig` as JSON.
      code_fingerprint: Unused. In the configuration it makes an edit of this module
        change TFX's cache key.
    """

    def __init__(self, task: dict[str, Any], code_fingerprint: str = "") -> None:
        super().__init__(
            tfma.metrics.merge_per_key_computations(_computations),
            name="metrics",
            task=task,
        )


def custom_extractors(
    eval_shared_model: Any,
    eval_config: config_pb2.EvalConfig,
    tensor_adapter_config: Any,
) -> list[tfma.extractors.Extractor]:
    """Returns TFMA's extractors, the last of which slices whole batches.

    TFX's Evaluator looks this function up by its name.
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
    by_batch = [e for e in extractors if e.stage_name not in by_row]
    assert len(extractors) - len(by_batch) == len(by_row), extractors
    slices = tfma.extractors.Extractor(
        stage_name=tfma.extractors.SLICE_KEY_EXTRACTOR_STAGE_NAME,
        ptransform=beam.ParDo(SliceBatch(eval_config)),
    )
    return [*by_batch, slices]


class SliceBatch(beam.DoFn):
    """Splits a batch into one extract for each slice with rows of the batch."""

    def __init__(self, eval_config: config_pb2.EvalConfig) -> None:
        self._models = [spec.name for spec in eval_config.model_specs]
        self._slices = [list(spec.feature_keys) for spec in eval_config.slicing_specs]

    def process(self, batch: Extracts) -> Iterator[Extracts]:
        """Yields labels and predictions of each slice, all its rows in one extract."""
        keys = (tfma.constants.LABELS_KEY, tfma.constants.PREDICTIONS_KEY)
        arrays = {key: batch[key] for key in keys}
        size = len(tf.nest.flatten(arrays)[0])
        # Each model's `slice_features` computes some; the others are columns.
        features = batch[tfma.constants.TRANSFORMED_FEATURES_KEY]
        by_model = [features[name] for name in self._models if name in features]
        by_model = by_model or [features]
        if columns := {*itertools.chain(*self._slices)}.difference(*by_model):
            records = np.ravel(batch[tfma.constants.INPUT_KEY])
            examples = list(map(Example.FromString, records))
            read = {
                column: np.array([read_value(e, column) for e in examples], object)
                for column in columns
            }
            by_model = [{**computed, **read} for computed in by_model]
        masks: dict[tuple[tuple[str, str], ...], np.ndarray] = {}
        for feature_keys in self._slices:
            for features in by_model:
                for slice_key, mask in _group(features, feature_keys, size):
                    masks[slice_key] = masks.get(slice_key, False) | mask
        for slice_key, mask in masks.items():
            rows = tf.nest.map_structure(lambda array, mask=mask: array[mask], arrays)
            slice_keys = np.empty(1, dtype=object)
            slice_keys[0] = slice_key
            yield {**rows, tfma.constants.SLICE_KEY_TYPES_KEY: slice_keys}


def _group(
    features: Mapping[str, np.ndarray], keys: list[str], size: int
) -> Iterator[tuple[tuple[tuple[str, str], ...], np.ndarray]]:
    """Yields the slices by some features, each with a mask of its rows, bool[size]."""
    columns = [np.reshape(features[key], [size]) for key in keys]
    for values in itertools.product(*map(np.unique, columns)):
        mask = np.ones(size, bool)
        for column, value in zip(columns, values, strict=True):
            mask &= column == value
        if mask.any():
            yield tuple(zip(keys, map(tf.compat.as_str, values), strict=True)), mask


def _computations(
    name: str,
    task: dict[str, Any],
    eval_config: config_pb2.EvalConfig | None = None,
    model_name: str = "",
    output_name: str = "",
    example_weighted: bool = False,
) -> list[tfma.metrics.MetricComputation | tfma.metrics.DerivedMetricComputation]:
    del name
    key_parts: dict[str, Any] = {
        "model_name": model_name,
        "output_name": output_name,
        "example_weighted": example_weighted,
    }
    gather = gather_rows(eval_config, **key_parts)
    # Thresholds by name apply only to keys whose `example_weighted` is None, which TFMA
    # uses for the metrics of a model (`metric_thresholds_from_metrics_specs`).
    definition = TaskConfig(**task)
    names = definition.metric_table
    keys = {
        name: tfma.metrics.MetricKey(
            name=name, **key_parts | {"example_weighted": None}
        )
        for name in (EXAMPLE_COUNT, *names)
    }
    plots = []
    if "confusion" in definition.label_kind.sections:
        plots = [tfma.metrics.PlotKey(name=CONFUSION_MATRIX, **key_parts)]

    def result(computed: dict[tfma.metrics.MetricKey, Any]) -> dict:
        rows = computed[gather.keys[0]]
        values = metrics.compute(definition.classes, rows) | {
            EXAMPLE_COUNT: float(len(rows))
        }
        results: dict[Any, Any] = {key: values[name] for name, key in keys.items()}
        return results | {plot: _confusion_matrix(rows) for plot in plots}

    derived = tfma.metrics.DerivedMetricComputation(
        keys=[*keys.values(), *plots], result=result
    )
    return [gather, derived]


def gather_rows(
    eval_config: config_pb2.EvalConfig, **names: str | bool
) -> tfma.metrics.MetricComputation:
    """Returns the computation of the `Rows` of a slice.

    TFMA runs computations with the same key and combiner once for all metrics.

    Args:
      eval_config: Describes the models.
      **names: Further parts of the key, such as `model_name`.
    """
    # TFMA hides names with a leading "_".
    key = tfma.metrics.MetricKey(name="_rows", **names)
    return tfma.metrics.MetricComputation(
        keys=[key], preprocessors=None, combiner=_GatherRows(key, eval_config)
    )


class _GatherRows(beam.CombineFn):
    """Collects the `Rows` of batches, 32 bytes a row; of each label of several, 24."""

    def __init__(
        self, key: tfma.metrics.MetricKey, eval_config: config_pb2.EvalConfig
    ) -> None:
        self._key = key
        self._eval_config = eval_config

    def create_accumulator(self) -> list[Rows]:
        return []

    def add_input(
        self, accumulator: list[Rows], element: tfma.metrics.StandardMetricInputs
    ) -> list[Rows]:
        (spec,) = (
            spec
            for spec in self._eval_config.model_specs
            if not self._key.model_name or spec.name == self._key.model_name
        )
        labels = np.asarray(_choose(element.label, spec.name, spec.label_key))
        outputs = _choose(element.prediction, spec.name, spec.prediction_key)
        # What the model predicts, because it may have a threshold.
        of_model = element.prediction
        if isinstance(of_model, Mapping):
            of_model = of_model.get(spec.name, of_model)
        if not isinstance(of_model, Mapping):
            of_model = {}
        predicted: np.ndarray | None = None
        if exported_model.LABELS in of_model:
            predicted = np.asarray(of_model[exported_model.LABELS])
            return [*accumulator, Rows.of(labels, outputs, predicted=predicted)]
        labels = np.reshape(labels, [-1])
        outputs = np.reshape(outputs, [len(labels), -1])
        if outputs.shape[1] == 1:
            return [*accumulator, Rows.of(labels, outputs[:, 0])]
        if exported_model.CLASS_ID in of_model:
            predicted = np.reshape(of_model[exported_model.CLASS_ID], [-1])
        return [*accumulator, Rows.of(labels, outputs, predicted=predicted)]

    def merge_accumulators(self, accumulators: Iterable[list[Rows]]) -> list[Rows]:
        return list(itertools.chain.from_iterable(accumulators))

    def compact(self, accumulator: list[Rows]) -> list[Rows]:
        return [Rows.concatenate(accumulator)] if accumulator else []

    def extract_output(
        self, accumulator: list[Rows]
    ) -> dict[tfma.metrics.MetricKey, Rows]:
        (rows,) = self.compact(accumulator)
        return {self._key: rows}


def _choose(values: Any, *names: str) -> np.ndarray:
    """Returns the array of a model and an output, if there are several of either."""
    for name in names:
        if isinstance(values, Mapping) and name in values:
            values = values[name]
    return np.asarray(values)


def _confusion_matrix(
    rows: Rows,
) -> metrics_for_slice_pb2.MultiClassConfusionMatrixAtThresholds:
    plot = metrics_for_slice_pb2.MultiClassConfusionMatrixAtThresholds()
    matrix = plot.matrices.add(threshold=0.0)
    is_known = np.isfinite(rows.predictions)
    pairs = np.stack([rows.labels, rows.predictions], axis=1)[is_known].astype(int)
    cells, counts = np.unique(pairs, axis=0, return_counts=True)
    for (actual, predicted), count in zip(cells, counts, strict=True):
        matrix.entries.add(
            actual_class_id=actual,
            predicted_class_id=predicted,
            num_weighted_examples=count,
        )
    return plot
