"""ServingCheck: replaces InfraValidator, which requires Docker or Kubernetes."""

import json
import logging
import tempfile

from tfx import v1 as tfx
from tfx.types import artifact_utils
from tfx.utils import io_utils, path_utils

from components import blessings
from components.serving_check import check, portable_check, rows
from components.serving_check.model_process import ModelProcess
from contracts.redaction import Redaction
from contracts.settings.sections import Reads, Sections
from contracts.storage import uris
from contracts.verdicts import SERVING_EXAMPLES_FILE
from contracts.versions.exported_model import PORTABLE_DIRECTORY

logger = logging.getLogger(__name__)


@tfx.dsl.components.component
def ServingCheck(
    model: tfx.dsl.components.InputArtifact[tfx.types.standard_artifacts.Model],
    examples: tfx.dsl.components.InputArtifact[tfx.types.standard_artifacts.Examples],
    model_run: tfx.dsl.components.InputArtifact[tfx.types.standard_artifacts.ModelRun],
    blessing: tfx.dsl.components.OutputArtifact[
        tfx.types.standard_artifacts.InfraBlessing
    ],
    settings: tfx.dsl.components.Parameter[str],
    fingerprint: tfx.dsl.components.Parameter[str],
    redact: tfx.dsl.components.Parameter[str] = "null",
) -> None:
    """Blesses a model that loads and predicts as it did in the evaluation.

    Args:
      model: The exported model.
      examples: Raw Examples, gzipped TFRecords.
      model_run: The Trainer's, with its predictions on the split.
      blessing: Read by ModelChecks. Contains `serving_check.json`, the result with
        reasons and measurements, and `request.json`, the request that was sent.
        `examples.json` has the rows that are pushed with the model, if there are any,
        and `onnx` the portable folder, with `serving.portable`.
      settings: JSON of the settings in `READS`.
      fingerprint: Hash of this code and `text_ops.json`; part of the cache key.
      redact: JSON of the function that redacts the pushed rows; see `Redaction.parse`.

    Raises:
      ValueError: A setting is invalid. A model that fails is not blessed.
      RuntimeError: TensorFlow itself does not start within the limits.
    """
    del fingerprint
    config = Sections.parse(settings)
    split = artifact_utils.get_split_uri([examples], config.evaluator.gate_split)
    candidate = path_utils.serving_model_path(model.uri)
    with ModelProcess(config.serving) as process:
        # It imports TensorFlow meanwhile.
        request = rows.build_request(uris.join(split, "*"), model_run.uri, config)
        report = check.check_model(candidate, request, process)
        if report.blessed and config.serving.portable:
            folder = uris.join(blessing.uri, PORTABLE_DIRECTORY)
            reasons = portable_check.write(
                candidate, model_run.uri, folder, request, process
            )
            report = report.model_copy(update={"reasons": reasons})
        if report.blessed:
            process.keep()
    _write(blessing, "request.json", request.model_dump_json(indent=1))
    report.write(blessing.uri)
    if examples_to_try := rows.select_examples(request):
        with tempfile.TemporaryDirectory() as folder:
            if redaction := Redaction.parse(redact, folder):
                examples_to_try = list(map(redaction.redact_row, examples_to_try))
                if redaction.note:
                    logger.warning(redaction.note)
        content = json.dumps({"instances": examples_to_try}, indent=1)
        _write(blessing, SERVING_EXAMPLES_FILE, content)
    blessings.write_blessing(blessing, blessings.INFRA, is_blessed=report.blessed)
    for reason in report.reasons:
        logger.error("the model is not blessed: %s", reason)


def _write(artifact: tfx.dsl.Artifact, name: str, content: str) -> None:
    io_utils.write_string_file(uris.join(artifact.uri, name), content)


ServingCheck.READS = Reads(
    task=True,
    evaluator={"split"},
    serving=True,
)
