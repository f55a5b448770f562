"""Writes a model as a portable folder, and compares their predictions."""

from __future__ import annotations

import base64

import numpy as np

from components.serving_check.model_process import (
    CANDIDATE,
    ModelError,
    ModelProcess,
)
from components.serving_check.request import ServingRequest
from contracts.errors import UsageError, named
from contracts.versions import exported_model
from modules.export import portable_folder
from portable.model import PortableModel

_TOLERANCE = 1e-4  # of a probability, or of a score; relative to a score above 1


def write(
    model: str, directory: str, request: ServingRequest, process: ModelProcess
) -> list[str]:
    """Writes a portable folder, and compares it with the model.

    Args:
      model: Directory of the SavedModel.
      directory: The folder, which does not exist.
      request: The rows, sent as text.
      process: The process, which has loaded the model.

    Returns:
      Why the folder may not be pushed.
    """
    text = request.signatures[0]
    kind = request.settings.task.label_kind
    decided = exported_model.LABELS if kind.has_flags else exported_model.CLASS_ID
    names = [kind.output, decided] if kind.names else [kind.output]
    try:
        portable_folder.write(portable_folder.read(model), directory)
        portable = PortableModel(directory)
        served = process.call(
            "comparing it with its portable folder",
            model=CANDIDATE,
            signature=text.name,
            inputs=text.inputs,
            outputs=names,
        )["values"]
    except (UsageError, ModelError) as error:
        return [f"serving.portable: {error}"]
    columns = [
        [
            base64.b64decode(value["b64"]) if isinstance(value, dict) else value
            for value in text.inputs[column]
        ]
        for column in portable.description.text_columns
    ]
    outputs = portable.predict(columns)
    expected, values = (np.asarray(of[kind.output]) for of in (served, outputs))
    differences = np.abs(values - expected) / np.maximum(1, np.abs(expected))
    by_row = differences.reshape(len(expected), -1).max(axis=1)
    # Not `>`: NaN must be refused.
    is_wrong = ~(by_row <= _TOLERANCE)
    for name in names[1:]:
        is_other = np.asarray(served[name]) != outputs[name]
        is_wrong |= is_other.reshape(len(expected), -1).any(axis=1)
    if not is_wrong.any():
        return []
    return [
        named(
            f"serving.portable: the predictions of the portable folder differ from "
            f"those of the model in {is_wrong.sum()} of {len(is_wrong)} rows, by up to "
            f"{by_row.max():.2g}, with a tolerance of {_TOLERANCE:g}",
            "E-serving-output",
        )
    ]
