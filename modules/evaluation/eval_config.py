"""The Evaluator's configuration: metrics, slices and signatures."""

from __future__ import annotations

import tensorflow_model_analysis as tfma
from tensorflow_model_analysis.proto import config_pb2

from modules import fingerprint
from modules.config.task import TaskConfig
from modules.data import slicing
from modules.evaluation import tfma_metrics
from modules.evaluation.metrics import POSITIVE_CLASS
from modules.export import signatures

_STATISTIC = tfma_metrics.Statistic.__name__
_BINARY_METRICS = {
    "accuracy": "BinaryAccuracy",
    "f1": "F1Score",
    "precision": "Precision",
    "recall": "Recall",
    "auc": "AUC",
    "matthews": _STATISTIC,
    "loss": "BinaryCrossEntropy",
    "calibration": "Calibration",
}
_MULTICLASS_METRICS = {
    "accuracy": "SparseCategoricalAccuracy",
    "f1": _STATISTIC,
    "loss": "SparseCategoricalCrossentropy",
}
_REGRESSION_METRICS = {
    "pearson_spearman": _STATISTIC,
    "pearson": _STATISTIC,
    "spearman": _STATISTIC,
    "mse": "MeanSquaredError",
    "mae": "MeanAbsoluteError",
}


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
    plain = config_pb2.MetricsSpec(
        metrics=[config_pb2.MetricConfig(class_name="ExampleCount")]
    )
    if not task.is_regression:
        plain.metrics.add(class_name="MultiClassConfusionMatrixPlot")
    by_class = config_pb2.MetricsSpec()
    for name, class_name in _class_names(task).items():
        # A statistic compares the most probable class, not one class with the rest.
        spec = plain if class_name == _STATISTIC else by_class
        spec.metrics.append(_metric(name, class_name))
    if task.is_binary:
        by_class.binarize.class_ids.values.append(POSITIVE_CLASS)
    return [plain, by_class]


def _class_names(task: TaskConfig) -> dict[str, str]:
    if task.is_regression:
        return _REGRESSION_METRICS
    return _BINARY_METRICS if task.is_binary else _MULTICLASS_METRICS


def _metric(name: str, class_name: str) -> config_pb2.MetricConfig:
    metric = config_pb2.MetricConfig(
        class_name=class_name,
        config=f'"name": "{name}"',
    )
    if class_name == _STATISTIC:
        metric.module = tfma_metrics.__name__
        code = fingerprint.of_code(tfma_metrics.__name__)
        metric.config += f', "code_fingerprint": "{code}"'
    return metric
