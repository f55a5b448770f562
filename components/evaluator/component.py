"""Evaluator: TFX's, with bounds as parameters and a readable verdict."""

from __future__ import annotations

from tensorflow_model_analysis.proto import config_pb2
from tfx import types
from tfx import v1 as tfx
from tfx.dsl.components.base import base_beam_component, executor_spec
from tfx.types import component_spec, standard_artifacts, standard_component_specs
from tfx.utils import json_utils

from components.artifacts import ModelVerdict
from components.evaluator import executor

_ComponentSpec = standard_component_specs.EvaluatorSpec


class EvaluatorSpec(component_spec.ComponentSpec):
    """TFX's EvaluatorSpec with the bounds and the verdict."""

    PARAMETERS = {
        **_ComponentSpec.PARAMETERS,
        executor.THRESHOLDS_KEY: component_spec.ExecutionParameter(type=str),
        executor.MAX_REGRESSION_KEY: component_spec.ExecutionParameter(type=str),
        executor.SIGNIFICANCE_KEY: component_spec.ExecutionParameter(type=float),
        executor.SETTINGS_KEY: component_spec.ExecutionParameter(type=str),
        "fingerprint": component_spec.ExecutionParameter(type=str),
    }
    INPUTS = {
        **_ComponentSpec.INPUTS,
        executor.MODEL_RUN_KEY: component_spec.ChannelParameter(
            type=standard_artifacts.ModelRun
        ),
    }
    OUTPUTS = {
        **_ComponentSpec.OUTPUTS,
        executor.VERDICT_KEY: component_spec.ChannelParameter(type=ModelVerdict),
    }
    TYPE_ANNOTATION = _ComponentSpec.TYPE_ANNOTATION


class Evaluator(base_beam_component.BaseBeamComponent):
    """Evaluates a model, and compares it with the champion if there is one.

    TFX's Evaluator takes the bounds as a part of `eval_config`, which a runtime
    parameter cannot change, and requires a baseline either always or never.
    """

    SPEC_CLASS = EvaluatorSpec
    EXECUTOR_SPEC = executor_spec.BeamExecutorSpec(executor.Executor)

    def __init__(
        self,
        *,
        examples: types.BaseChannel,
        model: types.BaseChannel,
        model_run: types.BaseChannel,
        baseline_model: types.BaseChannel,
        eval_config: config_pb2.EvalConfig,
        module_path: str,
        example_splits: list[str],
        thresholds: str | tfx.dsl.experimental.RuntimeParameter,
        max_regression: str | tfx.dsl.experimental.RuntimeParameter,
        significance: float | tfx.dsl.experimental.RuntimeParameter,
        settings: str,
        fingerprint: str,
    ) -> None:
        """Declares the component; its outputs are TFX's and `verdict`.

        Args:
          examples: The Examples to evaluate on.
          model: The candidate.
          model_run: The Trainer's, with the candidate's predictions.
          baseline_model: The champion; an empty artifact if no version is served.
          eval_config: Model, slices and metrics; each metric has a unique name. A
            metric whose value is a JSON object with a `sentence` is a test of both
            models, which the verdict repeats.
          module_path: Import path of the module whose `custom_extractors` prepare the
            rows for the metrics.
          example_splits: The splits to evaluate.
          thresholds: JSON: lowest allowed value by metric, over all rows.
          max_regression: JSON: largest allowed difference below the champion by metric.
          significance: A model is refused if a test finds it worse than the champion
            or a linear model, with a p-value below this.
          settings: JSON of `EvaluatorSettings`: the lowest allowed values in slices,
            and the comparison with a linear model.
          fingerprint: Hash of this code; part of the cache key.
        """
        outputs = {
            key: types.Channel(type=parameter.type)
            for key, parameter in EvaluatorSpec.OUTPUTS.items()
        }
        super().__init__(
            EvaluatorSpec(
                examples=examples,
                model=model,
                model_run=model_run,
                baseline_model=baseline_model,
                eval_config=eval_config,
                module_path=module_path,
                example_splits=json_utils.dumps(example_splits),
                thresholds=thresholds,
                max_regression=max_regression,
                significance=significance,
                settings=settings,
                fingerprint=fingerprint,
                **outputs,
            )
        )
