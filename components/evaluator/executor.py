"""The executor of Evaluator."""

from __future__ import annotations

import json
import math
from typing import Any

from tensorflow_model_analysis.proto import config_pb2
from tfx import types
from tfx import v1 as tfx
from tfx.components.evaluator import executor
from tfx.components.util import model_utils
from tfx.types import artifact_utils, standard_component_specs
from tfx.utils import path_utils, proto_utils

from components import blessings
from components.artifacts import NOT_COMPARED
from components.evaluator import verdict
from components.evaluator.slices import read_slices
from contracts import metrics as task_metrics
from contracts.records.evaluation import Verdict, lowest
from contracts.settings.evaluator import EvaluatorConfig
from contracts.settings.sections import Sections
from contracts.verdicts import PUSHED_DESTINATION
from modules.evaluation import eval_config

# Parameters of the run that replace settings.
BOUNDS = {"thresholds": str, "max_regression": str, "significance": float}
SETTINGS_KEY = "settings"
VERDICT_KEY = "verdict"

_BASELINE = standard_component_specs.BASELINE_MODEL_KEY
_EVAL_CONFIG = standard_component_specs.EVAL_CONFIG_KEY


class Executor(executor.Executor):
    """Adds the bounds to the EvalConfig, evaluates like TFX, and writes the verdict."""

    def Do(
        self,
        input_dict: dict[str, list[types.Artifact]],
        output_dict: dict[str, list[types.Artifact]],
        exec_properties: dict[str, Any],
    ) -> None:
        """Evaluates a model.

        Args:
          input_dict: `examples`, `model` and `baseline_model`.
          output_dict: `evaluation`, `blessing` and `verdict`.
          exec_properties: `eval_config`, `example_splits`, `thresholds`,
            `max_regression`, `significance` and `settings`.

        Raises:
          ValueError: A bound is not a number, or names a metric that is not evaluated,
            or the significance is not from 0 to 1.
        """
        settings = Sections.parse(
            exec_properties[SETTINGS_KEY],
            evaluator={name: exec_properties[name] for name in BOUNDS},
        )
        limits = settings.evaluator
        config = proto_utils.json_to_proto(
            exec_properties[_EVAL_CONFIG], config_pb2.EvalConfig()
        )
        add_bounds(config, limits)
        bounded = {_EVAL_CONFIG: proto_utils.proto_to_json(config)}
        baseline = artifact_utils.get_single_instance(input_dict[_BASELINE])
        # Without a champion, the artifact is empty.
        champion, model = None, path_utils.serving_model_path(baseline.uri)
        if tfx.dsl.io.fileio.exists(model):
            champion = baseline.get_string_custom_property(PUSHED_DESTINATION) or model
        # TFX's Evaluator takes a baseline only if one is among the inputs.
        inputs = dict(input_dict)
        if champion is None:
            del inputs[_BASELINE]
        super().Do(inputs, output_dict, {**exec_properties, **bounded})

        outputs = {
            key: artifact_utils.get_single_instance(artifacts)
            for key, artifacts in output_dict.items()
        }
        splits = exec_properties[standard_component_specs.EXAMPLE_SPLITS_KEY]
        evaluation = outputs[standard_component_specs.EVALUATION_KEY].uri
        blessing = outputs[standard_component_specs.BLESSING_KEY]
        has_champion = champion is not None
        metrics = verdict.read_metrics(evaluation, limits, has_champion=has_champion)
        tests = verdict.read_paired_tests(evaluation) if has_champion else {}
        worse = verdict.find_worse(tests, limits.significance, metrics)
        result = Verdict(
            blessed=model_utils.is_model_blessed(blessing),
            splits=json.loads(splits),
            champion=champion,
            metrics=metrics,
            slices=read_slices(evaluation, has_champion=has_champion),
            paired=tests[()] if has_champion else None,
            significance=limits.significance,
            worse=worse,
            not_compared=baseline.get_string_custom_property(NOT_COMPARED) or None,
        )
        # TFMA has no test of both models. The change from a metric that is NaN is NaN,
        # so TFMA refuses every candidate.
        if result.failures:
            result.blessed = False
        elif any(metric.ignores_champion for metric in metrics):
            result.blessed = True
        # It replaces the one that TFX's Evaluator wrote.
        blessings.write_blessing(blessing, blessings.MODEL, is_blessed=result.blessed)
        result.write(outputs[VERDICT_KEY].uri)


def add_bounds(config: config_pb2.EvalConfig, bounds: EvaluatorConfig) -> None:
    """Adds the bounds to an EvalConfig.

    Args:
      config: Result of `eval_config.build_eval_config`; modified in place.
      bounds: `thresholds` and `max_regression`, over all rows.

    Raises:
      ValueError: A bound names a metric that cannot have one.
    """
    spec, evaluated = eval_config.read_deciding(config)
    bounded = {*bounds.thresholds, *bounds.max_regression}
    unknown = bounded - set(evaluated)
    if unknown:
        raise ValueError(
            f"bounds on {', '.join(sorted(unknown))}, but the metrics that can "
            f"have one are {task_metrics.shorten(evaluated)}"
        )
    for name in bounded:
        # A SlicingSpec without features is the slice of all rows.
        threshold = (
            spec.per_slice_thresholds[name]
            .thresholds.add(slicing_specs=[config_pb2.SlicingSpec()])
            .threshold
        )
        # NaN reaches no bound, and a first model has no champion to be refused by.
        bound = lowest(bounds.thresholds.get(name, -math.inf))
        threshold.value_threshold.lower_bound.value = bound
        if name in bounds.max_regression:
            change = threshold.change_threshold
            change.direction = config_pb2.MetricDirection.HIGHER_IS_BETTER
            change.absolute.value = lowest(-bounds.max_regression[name])
