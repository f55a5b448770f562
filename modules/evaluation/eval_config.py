"""The Evaluator's configuration: metrics, slices and signatures."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any

import tensorflow_model_analysis as tfma
from tensorflow_model_analysis.proto import config_pb2

from contracts import fingerprint
from contracts.task.definition import TaskConfig
from contracts.versions import exported_model
from modules.evaluation import tfma_metrics, tfma_paired_test


def build_eval_config(
    task: TaskConfig, slice_columns: Sequence[str] = ()
) -> config_pb2.EvalConfig:
    """Builds the Evaluator's configuration from the task.

    It evaluates the exported signature on raw Examples, as it will be served.

    Args:
      task: Names the label and the kind of prediction.
      slice_columns: Columns of the Examples to slice by, besides the features that the
        model computes.

    Returns:
      A configuration without thresholds, which are parameters of a run.
    """
    return config_pb2.EvalConfig(
        model_specs=[
            config_pb2.ModelSpec(
                model_type=tfma.constants.TF_GENERIC,
                signature_name=exported_model.SERVE_EXAMPLES,
                preprocessing_function_names=[exported_model.SLICE_FEATURES],
                label_key=task.label_column,
                prediction_key=task.label_kind.output,
            )
        ],
        slicing_specs=[
            config_pb2.SlicingSpec(),
            *(
                config_pb2.SlicingSpec(feature_keys=[key])
                for key in (*task.slice_features, *slice_columns)
            ),
        ],
        metrics_specs=[
            config_pb2.MetricsSpec(
                metrics=[
                    _metric(
                        tfma_metrics.Metrics,
                        task=task.model_dump(mode="json"),
                    ),
                    _metric(
                        tfma_paired_test.PairedTest, task=task.model_dump(mode="json")
                    ),
                ]
            )
        ],
    )


def read_deciding(
    config: config_pb2.EvalConfig,
) -> tuple[config_pb2.MetricsSpec, list[str]]:
    """Returns the metrics of an EvalConfig that can have thresholds.

    Returns:
      The MetricsSpec to add thresholds to, and the names of the metrics.
    """
    (spec,) = config.metrics_specs
    (options,) = (
        json.loads(f"{{{metric.config}}}")
        for metric in spec.metrics
        if metric.class_name == tfma_metrics.Metrics.__name__
    )
    return spec, list(TaskConfig(**options["task"]).metrics)


def _metric(kind: type[tfma.metrics.Metric], **options: Any) -> config_pb2.MetricConfig:
    code = fingerprint.of_code(kind.__module__)
    return config_pb2.MetricConfig(
        class_name=kind.__name__,
        module=kind.__module__,
        # TFMA stores the inside of a JSON object, without its braces.
        config=json.dumps({"code_fingerprint": code, **options})[1:-1],
    )
