"""What the Evaluator measures, and what a model must reach to be blessed."""

from __future__ import annotations

import tensorflow_model_analysis as tfma

from modules import export, slicing
from pipeline.config import EvaluatorConfig, TaskConfig

POSITIVE_CLASS = 1
_PROBABILITIES = "probabilities"
_BINARY_METRICS = {
    "accuracy": tfma.metrics.BinaryAccuracy,
    "f1": tfma.metrics.F1Score,
    "precision": tfma.metrics.Precision,
    "recall": tfma.metrics.Recall,
    "auc": tfma.metrics.AUC,
    "loss": tfma.metrics.BinaryCrossEntropy,
    "calibration": tfma.metrics.Calibration,
}
_MULTICLASS_METRICS = {
    "accuracy": "SparseCategoricalAccuracy",
    "loss": "SparseCategoricalCrossentropy",
}


def build_eval_config(task: TaskConfig, gate: EvaluatorConfig) -> tfma.EvalConfig:
    """Builds the Evaluator's configuration from the task and the gate.

    The exported signature is measured on raw Examples, as it will be served.

    Args:
      task: Names the label and the classes.
      gate: Thresholds, and how far below the champion a model may be.

    Returns:
      A configuration whose bounds hold on all rows; slices are reported only, as most
      have too few rows to decide on.
    """
    return tfma.EvalConfig(
        model_specs=[
            tfma.ModelSpec(
                model_type=tfma.constants.TF_GENERIC,
                signature_name=export.SERVE_EXAMPLES,
                preprocessing_function_names=[export.SLICE_FEATURES],
                label_key=task.label_column,
                prediction_key=_PROBABILITIES,
            )
        ],
        slicing_specs=[
            tfma.SlicingSpec(),
            tfma.SlicingSpec(feature_keys=[slicing.PAIR_LENGTH]),
            tfma.SlicingSpec(feature_keys=[slicing.WORD_OVERLAP]),
        ],
        metrics_specs=_metrics_specs(task, gate),
    )


def _metrics_specs(task: TaskConfig, gate: EvaluatorConfig) -> list[tfma.MetricsSpec]:
    plain = tfma.MetricsSpec(
        metrics=[
            tfma.MetricConfig(class_name="ExampleCount"),
            tfma.MetricConfig(class_name="MultiClassConfusionMatrixPlot"),
        ]
    )
    if task.is_binary:
        metrics = [
            tfma.MetricConfig(
                class_name=metric.__name__,
                config=f'"name": "{name}"',
                threshold=_threshold(name, gate),
            )
            for name, metric in _BINARY_METRICS.items()
        ]
        binarize = tfma.BinarizationOptions(class_ids={"values": [POSITIVE_CLASS]})
        return [plain, tfma.MetricsSpec(metrics=metrics, binarize=binarize)]
    metrics = [
        tfma.MetricConfig(
            class_name=class_name,
            config=f'"name": "{name}"',
            threshold=_threshold(name, gate),
        )
        for name, class_name in _MULTICLASS_METRICS.items()
    ]
    return [plain, tfma.MetricsSpec(metrics=metrics)]


def _threshold(name: str, gate: EvaluatorConfig) -> tfma.MetricThreshold | None:
    lowest = gate.thresholds.get(name)
    regression = gate.max_regression.get(name)
    if lowest is None and regression is None:
        return None
    threshold = tfma.MetricThreshold()
    if lowest is not None:
        threshold.value_threshold.lower_bound.value = lowest
    if regression is not None:
        threshold.change_threshold.direction = tfma.MetricDirection.HIGHER_IS_BETTER
        threshold.change_threshold.absolute.value = -regression
    return threshold
