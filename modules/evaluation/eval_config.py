"""The Evaluator's configuration: metrics, slices and signatures."""

from __future__ import annotations

import json
from typing import Any

import tensorflow_model_analysis as tfma
from tensorflow_model_analysis.proto import config_pb2

from modules import fingerprint
from modules.config.task import TaskConfig, class_metric
from modules.data import slicing
from modules.evaluation import tfma_metrics, tfma_paired_test
from modules.evaluation.metrics import POSITIVE_CLASS
from modules.export import signatures

# Names in the results, and `tfma_metrics.STATISTICS`.
_BINARY_METRICS = {
    "accuracy": "binary_accuracy",
    "f1": "binary_f1",
    "precision": "precision",
    "recall": "recall",
    "auc": "auc",
    "loss": "binary_cross_entropy",
    "calibration": "calibration",
}
_MULTICLASS_METRICS = {
    "accuracy": "accuracy",
    "f1": "macro_f1",
    "loss": "cross_entropy",
}
_CLASS_STATISTICS = {"f1": "binary_f1", "precision": "precision", "recall": "recall"}
_REGRESSION_METRICS = ("pearson_spearman", "pearson", "spearman", "mse", "mae")


def build_eval_config(task: TaskConfig) -> config_pb2.EvalConfig:
    """Builds the Evaluator's configuration from the task.

    It evaluates the exported signature on raw Examples, as it will be served.

    Args:
      task: Names the label and the kind of prediction.

    Returns:
      Metrics without thresholds, which are parameters of a run and hold on all rows.
      Slices are only reported, because most have too few rows to decide on.
    """
    return config_pb2.EvalConfig(
        model_specs=[
            config_pb2.ModelSpec(
                model_type=tfma.constants.TF_GENERIC,
                signature_name=signatures.SERVE_EXAMPLES,
                preprocessing_function_names=[signatures.SLICE_FEATURES],
                label_key=task.label_column,
                prediction_key=signatures.prediction_output(task),
            )
        ],
        slicing_specs=[
            config_pb2.SlicingSpec(),
            *(
                config_pb2.SlicingSpec(feature_keys=[key])
                for key in slicing.slice_keys(task)
            ),
        ],
        metrics_specs=_metrics_specs(task),
    )


def _metrics_specs(task: TaskConfig) -> list[config_pb2.MetricsSpec]:
    plain = config_pb2.MetricsSpec()
    _add_metric(plain, tfma_paired_test.PairedTest, task=task.model_dump(mode="json"))
    _add(plain, "example_count")
    if task.is_regression:
        for statistic in _REGRESSION_METRICS:
            _add(plain, statistic, name=statistic)
        return [plain]
    _add(plain, tfma_metrics.CONFUSION_MATRIX)
    for index, class_name in enumerate(task.classes or ()):
        for kind, statistic in _CLASS_STATISTICS.items():
            name = class_metric(kind, class_name)
            _add(plain, statistic, name=name, class_id=index)
    if not task.is_binary:
        for name, statistic in _MULTICLASS_METRICS.items():
            _add(plain, statistic, name=name)
        return [plain]
    # It compares the most probable class, not one class with the rest.
    _add(plain, "matthews", name="matthews")
    of_one_class = config_pb2.MetricsSpec()
    of_one_class.binarize.class_ids.values.append(POSITIVE_CLASS)
    for name, statistic in _BINARY_METRICS.items():
        _add(of_one_class, statistic, name=name)
    return [plain, of_one_class]


def _add(spec: config_pb2.MetricsSpec, statistic: str, **options: str | int) -> None:
    """Adds a metric; bounds hold for those with a name in their configuration."""
    _add_metric(spec, tfma_metrics.Statistic, statistic=statistic, **options)


def _add_metric(
    spec: config_pb2.MetricsSpec, kind: type[tfma.metrics.Metric], **options: Any
) -> None:
    code = fingerprint.of_code(kind.__module__)
    spec.metrics.add(
        class_name=kind.__name__,
        module=kind.__module__,
        # TFMA stores the inside of a JSON object, without its braces.
        config=json.dumps({"code_fingerprint": code, **options})[1:-1],
    )
