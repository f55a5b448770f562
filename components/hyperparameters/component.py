"""Hyperparameters: parameters of the run, checked, as what TFX's Trainer takes."""

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
    """Writes settings of a training in which the run's parameters are put.

    The Trainer's own `custom_config` is one text, which no parameter of a run can
    reach into.

    Args:
      hyperparameters: The settings as JSON.
      settings: JSON of the settings that are no parameters.
      validate: Import path of a function from settings to settings, which raises
        ValueError where they are not allowed.
      epochs: Passes over the training split.
      steps_per_epoch: Steps of a pass; 0 takes every row once.
      learning_rate: Peak rate.
      fingerprint: Of this code, so that the cache sees an edit.
    """
    del fingerprint
    # TFX's own import function reloads the module: its classes would be made twice.
    checked = pkgutil.resolve_name(validate)(
        {
            **json.loads(settings),
            "epochs": epochs,
            "steps_per_epoch": steps_per_epoch or None,
            "learning_rate": learning_rate,
        }
    )
    path = os.path.join(hyperparameters.uri, HYPERPARAMETERS_FILE)
    io_utils.write_string_file(path, json.dumps(checked, indent=1))
