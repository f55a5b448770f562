"""ServingCheck: in place of InfraValidator, which wants Docker or Kubernetes."""

import json
import logging
import os

from tfx import v1 as tfx
from tfx.types import artifact_utils
from tfx.utils import io_utils, path_utils

from components.serving_check import check, text_ops
from components.serving_check import rows as rows_lib

REPORT_FILE = "serving_check.json"
REQUEST_FILE = "request.json"

logger = logging.getLogger(__name__)


@tfx.dsl.components.component
def ServingCheck(
    model: tfx.dsl.components.InputArtifact[tfx.types.standard_artifacts.Model],
    examples: tfx.dsl.components.InputArtifact[tfx.types.standard_artifacts.Examples],
    model_run: tfx.dsl.components.InputArtifact[tfx.types.standard_artifacts.ModelRun],
    blessing: tfx.dsl.components.OutputArtifact[
        tfx.types.standard_artifacts.InfraBlessing
    ],
    split: tfx.dsl.components.Parameter[str],
    request: tfx.dsl.components.Parameter[str],
    tf_serving_version: tfx.dsl.components.Parameter[str],
    max_memory_bytes: tfx.dsl.components.Parameter[int],
    timeout_seconds: tfx.dsl.components.Parameter[int],
    rows: tfx.dsl.components.Parameter[int],
    fingerprint: tfx.dsl.components.Parameter[str],
) -> None:
    """Blesses a model that serves what was evaluated, as TFX's InfraValidator does.

    Args:
      model: The exported model.
      examples: Raw Examples, gzipped TFRecords.
      model_run: The Trainer's, with its predictions on the split.
      blessing: For Pusher. `serving_check.json` in it has the verdict with its reasons
        and measurements, `request.json` all that was asked.
      split: Of the Examples.
      request: JSON; `components.serving_check.rows.Interface` has its keys.
      tf_serving_version: The TensorFlow Serving that the model is meant for, such as
        `2.16`.
      max_memory_bytes: Resident memory the process may take, TensorFlow included.
      timeout_seconds: What loading and all answers together may take.
      rows: How many rows are sent.
      fingerprint: Of this code and `text_ops.json`, so that the cache sees an edit.

    Raises:
      ValueError: A parameter does not fit. A model that fails is only not blessed.
      RuntimeError: TensorFlow itself does not start within the limits.
    """
    del fingerprint
    limits = {
        "rows": rows,
        "max_memory_bytes": max_memory_bytes,
        "timeout_seconds": timeout_seconds,
    }
    for name, value in limits.items():
        if value < 1:
            raise ValueError(f"{name} is {value}, but must be at least 1")
    text_ops.text_version(tf_serving_version)
    interface = rows_lib.Interface.from_json(request)
    expected = rows_lib.read_predictions(
        os.path.join(model_run.uri, interface.predictions.file), interface.predictions
    )
    ids, signatures = rows_lib.build_signatures(
        os.path.join(artifact_utils.get_split_uri([examples], split), "*"),
        expected,
        interface,
        rows,
    )
    serving_request = check.ServingRequest(
        ids=ids,
        signatures=signatures,
        tf_serving_version=tf_serving_version,
        max_memory_bytes=max_memory_bytes,
        timeout_seconds=timeout_seconds,
    )
    path = path_utils.serving_model_path(
        model.uri, path_utils.is_old_model_artifact(model)
    )
    report = check.check_model(path, serving_request)
    _write(blessing, REQUEST_FILE, serving_request.to_json())
    _write(blessing, REPORT_FILE, report.to_json())
    _bless(blessing, report)


def read_reasons(directory: str) -> list[str]:
    """Returns why a model was not blessed; nothing where it was.

    Args:
      directory: Of the component's `blessing`.
    """
    text = io_utils.read_string_file(os.path.join(directory, REPORT_FILE))
    return json.loads(text)["reasons"]


def _bless(blessing: tfx.dsl.Artifact, report: check.ServingReport) -> None:
    """Marks the artifact as the executor of InfraValidator does."""
    _write(blessing, "INFRA_BLESSED" if report.blessed else "INFRA_NOT_BLESSED", "")
    blessing.set_int_custom_property("blessed", int(report.blessed))
    for reason in report.reasons:
        logger.error("the model is not blessed: %s", reason)


def _write(artifact: tfx.dsl.Artifact, name: str, content: str) -> None:
    io_utils.write_string_file(os.path.join(artifact.uri, name), content)
