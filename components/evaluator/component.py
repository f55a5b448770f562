"""Evaluator: TFX's, with bounds as parameters and a verdict that people can read."""

from __future__ import annotations

from tensorflow_model_analysis.proto import config_pb2
from tfx import types
from tfx import v1 as tfx
from tfx.dsl.components.base import base_beam_component, executor_spec
from tfx.types import component_spec, standard_component_specs
from tfx.utils import json_utils

from components.artifacts import ModelVerdict
from components.evaluator import executor

FINGERPRINT_KEY = "fingerprint"

_ComponentSpec = standard_component_specs.EvaluatorSpec


class EvaluatorSpec(component_spec.ComponentSpec):
    """TFX's EvaluatorSpec with the bounds and the verdict."""

    PARAMETERS = {
        **_ComponentSpec.PARAMETERS,
        executor.THRESHOLDS_KEY: component_spec.ExecutionParameter(type=str),
        executor.MAX_REGRESSION_KEY: component_spec.ExecutionParameter(type=str),
        FINGERPRINT_KEY: component_spec.ExecutionParameter(type=str),
    }
    INPUTS = _ComponentSpec.INPUTS
    OUTPUTS = {
        **_ComponentSpec.OUTPUTS,
        executor.VERDICT_KEY: component_spec.ChannelParameter(type=ModelVerdict),
    }
    TYPE_ANNOTATION = _ComponentSpec.TYPE_ANNOTATION


class Evaluator(base_beam_component.BaseBeamComponent):
    """Evaluates a model, and the champion beside it where there is one.

    TFX's Evaluator takes its bounds as a part of `eval_config`, where a parameter of
    the run cannot reach them, and a baseline that is always there or never.
    """

    SPEC_CLASS = EvaluatorSpec
    EXECUTOR_SPEC = executor_spec.BeamExecutorSpec(executor.Executor)

    def __init__(
        self,
        *,
        examples: types.BaseChannel,
        model: types.BaseChannel,
        baseline_model: types.BaseChannel,
        eval_config: config_pb2.EvalConfig,
        example_splits: list[str],
        thresholds: str | tfx.dsl.experimental.RuntimeParameter,
        max_regression: str | tfx.dsl.experimental.RuntimeParameter,
        fingerprint: str,
    ) -> None:
        """Declares the component.

        Args:
          examples: What the model is measured on.
          model: The candidate.
          baseline_model: The champion; an artifact without a model in it is none.
          eval_config: Model, slices and metrics, each metric with a name of its own.
          example_splits: The splits to take.
          thresholds: JSON: lowest value by name of a metric, on all rows.
          max_regression: JSON: how far below the champion, by name of a metric.
          fingerprint: Of this code, so that the cache sees an edit.

        Its outputs are those of TFX's Evaluator, and `verdict`.
        """
        outputs = {
            key: types.Channel(type=parameter.type)
            for key, parameter in EvaluatorSpec.OUTPUTS.items()
        }
        super().__init__(
            EvaluatorSpec(
                examples=examples,
                model=model,
                baseline_model=baseline_model,
                eval_config=eval_config,
                example_splits=json_utils.dumps(example_splits),
                thresholds=thresholds,
                max_regression=max_regression,
                fingerprint=fingerprint,
                **outputs,
            )
        )
