"""Hyperparameters: the validated parameters of the run, for TFX's Trainer."""

import json

from tfx import v1 as tfx
from tfx.utils import io_utils

from modules import uris
from modules.config.trainer import TrainerConfig

HYPERPARAMETERS_FILE = "hyperparameters.json"


@tfx.dsl.components.component
def Hyperparameters(
    hyperparameters: tfx.dsl.components.OutputArtifact[
        tfx.types.standard_artifacts.HyperParameters
    ],
    settings: tfx.dsl.components.Parameter[str],
    epochs: tfx.dsl.components.Parameter[int],
    steps_per_epoch: tfx.dsl.components.Parameter[int],
    learning_rate: tfx.dsl.components.Parameter[float],
    fingerprint: tfx.dsl.components.Parameter[str],
) -> None:
    """Writes the training settings, including the run's parameters.

    The Trainer's `custom_config` is a single string, into which an orchestrator cannot
    substitute a runtime parameter.

    Args:
      hyperparameters: The settings as JSON.
      settings: JSON of the settings that are not runtime parameters.
      epochs: Passes over the training split.
      steps_per_epoch: Steps per epoch; 0 uses every row once.
      learning_rate: Rate that the decay starts from.
      fingerprint: Hash of this code; part of the cache key.

    Raises:
      ValueError: A setting or a parameter is not allowed.
    """
    del fingerprint
    trainer = TrainerConfig.model_validate(
        {
            **json.loads(settings),
            "epochs": epochs,
            "steps_per_epoch": steps_per_epoch or None,
            "learning_rate": learning_rate,
        }
    )
    path = uris.join(hyperparameters.uri, HYPERPARAMETERS_FILE)
    io_utils.write_string_file(path, json.dumps(trainer.model_dump(), indent=1))
