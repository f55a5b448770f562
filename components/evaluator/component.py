"""Evaluator: TFX's, with bounds as parameters and a readable verdict."""

from __future__ import annotations

from typing import Any

from tfx import types
from tfx.dsl.components.base import base_beam_component, executor_spec
from tfx.types import component_spec, standard_component_specs
from tfx.utils import json_utils

from components.artifacts import ModelVerdict
from components.evaluator import executor
from contracts.settings.sections import Reads, Sections
from modules.evaluation import eval_config, tfma_metrics

_ComponentSpec = standard_component_specs.EvaluatorSpec


class EvaluatorSpec(component_spec.ComponentSpec):
    """TFX's EvaluatorSpec with the bounds and the verdict."""

    PARAMETERS = {
        **_ComponentSpec.PARAMETERS,
        **{
            name: component_spec.ExecutionParameter(type=kind)
            for name, kind in executor.BOUNDS.items()
        },
        executor.SETTINGS_KEY: component_spec.ExecutionParameter(type=str),
        "fingerprint": component_spec.ExecutionParameter(type=str),
    }
    INPUTS = _ComponentSpec.INPUTS
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

    READS = Reads(task=True, data={"slice_columns"}, evaluator={"split"})
    SPEC_CLASS = EvaluatorSpec
    EXECUTOR_SPEC = executor_spec.BeamExecutorSpec(executor.Executor)

    def __init__(self, *, settings: str, **arguments: Any) -> None:
        """Declares the component; its outputs are TFX's and `verdict`.

        Args:
          settings: JSON of the settings in `READS`.
          **arguments: The inputs `examples`, `model` (the candidate) and
            `baseline_model` (the champion; an empty artifact if no version is served);
            `executor.BOUNDS`, which replace settings; `fingerprint`, the hash of this
            code.
        """
        sections = Sections.parse(settings)
        outputs = {
            key: types.Channel(type=parameter.type)
            for key, parameter in EvaluatorSpec.OUTPUTS.items()
        }
        super().__init__(
            EvaluatorSpec(
                eval_config=eval_config.build_eval_config(
                    sections.task, sections.data.slice_columns
                ),
                module_path=tfma_metrics.__name__,
                example_splits=json_utils.dumps([sections.evaluator.gate_split]),
                settings=settings,
                **arguments,
                **outputs,
            )
        )
