"""Training that starts from a model that was exported before, head and all."""

from __future__ import annotations

import os
from typing import Any

import tensorflow as tf
import tf_keras

from modules import fingerprint
from modules.config.task import TaskConfig
from modules.export import description
from modules.training import checkpoints

# Beside a model to start from, where it was pushed: {"directory": ...}.
CHAMPION_FILE = "champion.json"

_VARIABLES = "variables/variables"


def describe(task: TaskConfig, architecture: dict[str, Any]) -> dict[str, Any]:
    """Returns what two models must have alike for one to take the other's weights.

    Args:
      task: What the outputs are.
      architecture: The encoder's.
    """
    outputs = {"classes": task.classes, "label_range": task.label_range}
    return {**outputs, **architecture}


def find_misfit(model: str, expected: dict[str, Any]) -> str:
    """Returns why training cannot start from a model; empty where it can.

    Args:
      model: Directory of a SavedModel.
      expected: What `describe` says of the one to train.
    """
    described = description.read_description(model)
    if described is None:
        problem = f"it has no {description.FILE}, which describes its weights"
    else:
        problem = description.differences(described, expected)
    if not problem:
        return ""
    return (
        f"training cannot start from the champion {model}: {problem}. Start from the "
        "pre-trained encoder with --set trainer.warm_start=encoder"
    )


def find_base(path: str | None) -> str:
    """Returns the model to start from; empty where there is none.

    Args:
      path: `base_model` of TFX's `FnArgs`: None where it has none, a path that does
        not exist where nothing was pushed yet.
    """
    if path is None or not tf.io.gfile.exists(f"{path}/{_VARIABLES}.index"):
        return ""
    return path


def origin(base_model: str) -> str:
    """Returns what a training starts from, in words.

    Args:
      base_model: What `find_base` returned.
    """
    if not base_model:
        return "the pre-trained encoder"
    record = checkpoints.read_json(
        os.path.join(os.path.dirname(base_model), CHAMPION_FILE)
    )
    return f"the champion {record['directory'] if record else base_model}"


def fingerprint_of(model: str) -> str:
    """Returns the SHA-256 of an exported model's weights."""
    return fingerprint.of_files(tf.io.gfile.glob(f"{model}/{_VARIABLES}.*"))


def restore(model: tf_keras.Model, exported: str) -> None:
    """Reads all weights of an exported model into one to train.

    Args:
      model: The classifier; every weight of it must be found.
      exported: Directory of a SavedModel that `modules.export.serving_model` wrote.
    """
    # A SavedModel's variables are a checkpoint of the object that was saved: of
    # `export.ServingModel`, which holds the classifier as `_model`.
    status = tf.train.Checkpoint(_model=model).read(f"{exported}/{_VARIABLES}")
    status.assert_existing_objects_matched()
    status.expect_partial()  # Transform's graph is left out
