"""Writes a model as a portable folder, and compares their predictions."""

from __future__ import annotations

import base64
import tempfile
from pathlib import Path

import numpy as np

from components.serving_check.model_process import (
    CANDIDATE,
    ModelError,
    ModelProcess,
)
from components.serving_check.request import ServingRequest
from contracts import metrics
from contracts.errors import UsageError, named
from contracts.storage import files
from contracts.versions import exported_model
from modules.evaluation import prediction_files
from modules.export.onnx import comparison, portable_folder
from modules.export.pushed_model import read_pushed
from portable.model import PortableModel


def write(
    model: str,
    model_run: str,
    directory: str,
    request: ServingRequest,
    process: ModelProcess,
) -> list[str]:
    """Writes a portable folder if it predicts as the model does.

    Args:
      model: Directory of the SavedModel.
      model_run: Directory of the `ModelRun`.
      directory: The folder, local or remote.
      request: The rows, sent as text.
      process: The process, which has loaded the model.

    Returns:
      Why the folder may not be pushed.
    """
    text, settings = request.signatures[0], request.settings
    kind, split = settings.task.label_kind, settings.evaluator.gate_split
    names = [kind.output]
    if kind.names:
        names.append(
            exported_model.LABELS if kind.has_flags else exported_model.CLASS_ID
        )
    columns = [
        [
            base64.b64decode(value["b64"]) if isinstance(value, dict) else value
            for value in text.inputs[column]
        ]
        for column in settings.task.text_columns
    ]
    recorded = prediction_files.read_predictions(model_run, settings.task, split)
    with tempfile.TemporaryDirectory() as folder:
        try:
            portable_folder.write(
                read_pushed(model),
                Path(folder),
                metrics=metrics.compute(settings.task.classes, recorded.rows),
            )
            outputs = PortableModel(folder).predict(columns)
            served = process.call(
                "predicting the rows of the portable folder",
                model=CANDIDATE,
                signature=text.name,
                inputs=text.inputs,
                outputs=names,
            )["values"]
        except (UsageError, ModelError) as error:
            return [f"serving.portable: {error}"]
        difference = comparison.compare(
            {name: np.asarray(values) for name, values in served.items()}, outputs
        )
        if difference.is_rounding:
            files.copy_directory(folder, directory)
            return []
    changes = (
        f", and {difference.changes} of {len(columns[0])} predictions differ"
        if difference.changes
        else ""
    )
    return [
        named(
            "serving.portable: the portable folder predicts differently from the "
            f"model: by up to {difference.largest:.2g}, with {difference.allowed:.2g} "
            f"allowed{changes}",
            "E-serving-output",
        )
    ]
