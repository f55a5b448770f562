"""Hyperparameters: the run's parameters, validated, in the form TFX's Trainer takes."""

import json
import pkgutil

from tfx import v1 as tfx
from tfx.utils import io_utils

from modules import uris

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
    """Writes the training settings, with the run's parameters in them.

    The Trainer's `custom_config` is a single string, into which an orchestrator cannot
    substitute a runtime parameter.

    Args:
      hyperparameters: The settings as JSON.
      settings: JSON of the settings that are not runtime parameters.
      validate: Import path of a function that takes and returns settings. It raises
        ValueError for invalid ones.
      epochs: Passes over the training split.
      steps_per_epoch: Steps per epoch; 0 uses every row once.
      learning_rate: Peak learning rate.
      fingerprint: Hash of this code; part of the cache key.
    """
    del fingerprint
    # TFX's own import function reloads the module and duplicates its classes.
    validated = pkgutil.resolve_name(validate)(
        {
            **json.loads(settings),
            "epochs": epochs,
            "steps_per_epoch": steps_per_epoch or None,
            "learning_rate": learning_rate,
        }
    )
    path = uris.join(hyperparameters.uri, HYPERPARAMETERS_FILE)
    io_utils.write_string_file(path, json.dumps(validated, indent=1))
