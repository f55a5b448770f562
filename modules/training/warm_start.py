"""Training that starts from an exported model, its head included."""

from __future__ import annotations

import os
from collections.abc import Callable
from typing import Any

import tensorflow as tf
import tf_keras

from contracts import fingerprint
from contracts.storage import files, uris
from contracts.task.definition import TaskConfig
from contracts.versions import exported_model
from contracts.versions.exported_model import VARIABLES
from modules.training import computation
from modules.training.heads import ScoreProjection, ScoreScale

# Written next to a copied champion: {"directory": where it was pushed}.
CHAMPION_FILE = "champion.json"

_VARIABLES = f"{VARIABLES}/{VARIABLES}"


def describe(task: TaskConfig, architecture: dict[str, Any]) -> dict[str, Any]:
    """Returns the properties that two models must share to exchange weights."""
    described = exported_model.describe_task(task)
    outputs = {key: described[key] for key in ("kind", "classes", "label_range")}
    return {**outputs, **architecture}


def find_incompatibility(model: str, expected: dict[str, Any]) -> str:
    """Returns why training cannot start from a model; empty if it can."""
    described = exported_model.read_description(model)
    if described is None:
        return (
            f"it has no {exported_model.DESCRIPTION_FILE}, which describes its weights"
        )
    return exported_model.differences(described, expected)


def find_base_model(path: str | None) -> str:
    """Returns the directory of the model to start from; empty for the encoder.

    Args:
      path: `base_model` of TFX's `FnArgs`: None without a warm start; a directory that
        does not exist before the first push.
    """
    if path is None or not tf.io.gfile.exists(f"{path}/{_VARIABLES}.index"):
        return ""
    return path


def origin(base_model: str) -> str:
    """Returns a text that names the initial weights, for logs and records."""
    if not base_model:
        return "the pre-trained encoder"
    record = files.read_record(uris.join(os.path.dirname(base_model), CHAMPION_FILE))
    return f"the champion {record['directory'] if record else base_model}"


def fingerprint_of(model: str) -> str:
    """Returns the SHA-256 of an exported model's weights."""
    return fingerprint.of_files(tf.io.gfile.glob(f"{model}/{_VARIABLES}.*"))


def restore(
    model: tf_keras.Model, exported: str, build_model: Callable[[], tf_keras.Model]
) -> None:
    """Restores all weights of a model from an exported one.

    The scores of a regression stay the same, even if their scale is different.

    Args:
      model: The classifier to train.
      exported: Directory of a SavedModel that `modules.export.serving_model` wrote.
      build_model: Builds another such classifier, for weights in another type.

    Raises:
      AssertionError: A weight of the classifier is missing.
    """
    described = exported_model.read_description(exported) or {}
    dtype = described.get(exported_model.PRECISION, computation.FLOAT32)
    if dtype != computation.FLOAT32:
        with computation.stored_in(dtype):
            stored = build_model()
        _read(stored, exported)
        computation.copy_weights(stored, model)
    else:
        _read(model, exported)
    scale = ScoreScale(*described.get(exported_model.SCORE_SCALE, ()))
    for layer in model.submodules:
        if isinstance(layer, ScoreProjection):
            layer.adapt_weights(scale)


def _read(model: tf_keras.Model, exported: str) -> None:
    # The variables of a SavedModel are a checkpoint of the saved object, here
    # `serving_model.ServingModel`, whose attribute `_model` is the classifier.
    status = tf.train.Checkpoint(_model=model).read(f"{exported}/{_VARIABLES}")
    status.assert_existing_objects_matched()
    status.expect_partial()  # the rest is Transform's graph
