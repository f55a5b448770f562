"""The executor of Evaluator."""

from __future__ import annotations

import json
from typing import Any

from tensorflow_model_analysis.proto import config_pb2
from tfx import types
from tfx import v1 as tfx
from tfx.components.evaluator import constants, executor
from tfx.types import artifact_utils, standard_component_specs
from tfx.utils import path_utils, proto_utils

from components.artifacts import NOT_COMPARED, PUSHED_DESTINATION
from components.evaluator import bounds, verdict

THRESHOLDS_KEY = "thresholds"
MAX_REGRESSION_KEY = "max_regression"
VERDICT_KEY = "verdict"

_MODEL = standard_component_specs.MODEL_KEY
_BASELINE = standard_component_specs.BASELINE_MODEL_KEY
_EVAL_CONFIG = standard_component_specs.EVAL_CONFIG_KEY


class Executor(executor.Executor):
    """Puts the bounds in place, evaluates as TFX does, and writes the verdict."""

    def Do(
        self,
        input_dict: dict[str, list[types.Artifact]],
        output_dict: dict[str, list[types.Artifact]],
        exec_properties: dict[str, Any],
    ) -> None:
        """Evaluates.

        Args:
          input_dict: `examples`, `model` and `baseline_model`.
          output_dict: `evaluation`, `blessing` and `verdict`.
          exec_properties: `eval_config`, `example_splits`, `thresholds` and
            `max_regression`.

        Raises:
          ValueError: A bound is no number, or of a metric that is not measured.
        """
        config = proto_utils.json_to_proto(
            exec_properties[_EVAL_CONFIG], config_pb2.EvalConfig()
        )
        thresholds = bounds.parse(THRESHOLDS_KEY, exec_properties[THRESHOLDS_KEY])
        regression = bounds.parse(
            MAX_REGRESSION_KEY, exec_properties[MAX_REGRESSION_KEY]
        )
        bounds.add(config, thresholds, regression)
        baseline = artifact_utils.get_single_instance(input_dict[_BASELINE])
        champion = _champion(baseline)
        if champion is None:
            input_dict = {k: v for k, v in input_dict.items() if k != _BASELINE}
        super().Do(
            input_dict,
            output_dict,
            {**exec_properties, _EVAL_CONFIG: proto_utils.proto_to_json(config)},
        )
        blessing = artifact_utils.get_single_instance(
            output_dict[standard_component_specs.BLESSING_KEY]
        )
        found = verdict.read_evaluation(
            artifact_utils.get_single_uri(
                output_dict[standard_component_specs.EVALUATION_KEY]
            ),
            blessed=bool(
                blessing.get_int_custom_property(
                    constants.ARTIFACT_PROPERTY_BLESSED_KEY
                )
            ),
            splits=json.loads(
                exec_properties[standard_component_specs.EXAMPLE_SPLITS_KEY]
            ),
            champion=champion,
            not_compared=baseline.get_string_custom_property(NOT_COMPARED) or None,
            thresholds=thresholds,
            max_regression=regression,
        )
        verdict.write_verdict(
            found, artifact_utils.get_single_uri(output_dict[VERDICT_KEY])
        )


def _champion(baseline: types.Artifact) -> str | None:
    """Returns where the champion is served from, or None where there is none."""
    model = path_utils.serving_model_path(
        baseline.uri, path_utils.is_old_model_artifact(baseline)
    )
    if not tfx.dsl.io.fileio.exists(model):
        return None
    return baseline.get_string_custom_property(PUSHED_DESTINATION) or model
