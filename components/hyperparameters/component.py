"""Hyperparameters: the validated parameters of the run, for TFX's Trainer."""

import json
from typing import Any

from tfx import v1 as tfx
from tfx.utils import io_utils

from contracts.settings.trainer import TrainerConfig
from contracts.storage import uris
from modules.training import trials

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
    best_hyperparameters: tfx.dsl.components.InputArtifact[
        tfx.types.standard_artifacts.HyperParameters
    ] = None,
) -> None:
    """Writes the training settings: the recipe's, those found, the run's parameters.

    The Trainer's `custom_config` is a single string, into which an orchestrator cannot
    substitute a runtime parameter.

    Args:
      hyperparameters: The settings as JSON.
      settings: JSON of the settings that are not runtime parameters.
      epochs: Passes over the training split. 0 takes what the search found.
      steps_per_epoch: Steps per epoch; 0 uses every row once.
      learning_rate: Rate that the decay starts from. 0 takes what the search found.
      fingerprint: Hash of this code; part of the cache key.
      best_hyperparameters: What the Tuner found; None without a search.

    Raises:
      ValueError: A setting or a parameter is not allowed.
    """
    del fingerprint
    found: dict[str, Any] = {}
    if best_hyperparameters is not None:
        found, _ = trials.read_artifact(best_hyperparameters.uri)
    parameters = {
        "epochs": epochs,
        "steps_per_epoch": steps_per_epoch or None,
        "learning_rate": learning_rate,
    }
    given = {
        name: value for name, value in parameters.items() if value or name not in found
    }
    trainer = TrainerConfig.model_validate({**json.loads(settings), **found, **given})
    path = uris.join(hyperparameters.uri, HYPERPARAMETERS_FILE)
    io_utils.write_string_file(path, json.dumps(trainer.model_dump(), indent=1))
