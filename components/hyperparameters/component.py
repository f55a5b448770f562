"""Hyperparameters: the trainer's settings with the parameters of the run."""

import json
import os
import pkgutil

from tfx import v1 as tfx
from tfx.utils import io_utils

HYPERPARAMETERS_FILE = "hyperparameters.json"


@tfx.dsl.components.component
def Hyperparameters(
    hyperparameters: tfx.dsl.components.OutputArtifact[
        tfx.types.standard_artifacts.HyperParameters
    ],
    settings: tfx.dsl.components.Parameter[str],
    validate: tfx.dsl.components.Parameter[str],
    epochs: tfx.dsl.components.Parameter[int],
    steps_per_epoch: tfx.dsl.components.Parameter[int],
    learning_rate: tfx.dsl.components.Parameter[float],
    fingerprint: tfx.dsl.components.Parameter[str],
) -> None:
    """Validates the trainer's settings with the run's parameters, and writes them.

    The `custom_config` of TFX's Trainer is a single string, which cannot hold a
    parameter of a run.

    Args:
      hyperparameters: The settings as JSON.
      settings: JSON of the settings that are not parameters.
      validate: Import path of a function that returns the complete settings, or raises
        ValueError.
      epochs: Passes over the training split.
      steps_per_epoch: Steps of a pass; 0 takes every row once.
      learning_rate: Peak rate.
      fingerprint: Hash of this code; TFX's cache key has it as a property.
    """
    del fingerprint
    # TFX's import function reloads the module, which would define its classes twice.
    validated = pkgutil.resolve_name(validate)(
        {
            **json.loads(settings),
            "epochs": epochs,
            "steps_per_epoch": steps_per_epoch or None,
            "learning_rate": learning_rate,
        }
    )
    path = os.path.join(hyperparameters.uri, HYPERPARAMETERS_FILE)
    io_utils.write_string_file(path, json.dumps(validated, indent=1))
