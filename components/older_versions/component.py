"""OlderVersions: the metrics of older pushed versions on today's rows."""

import itertools
import json
import logging

from tfx import types
from tfx import v1 as tfx
from tfx.orchestration.portable import data_types

from components.artifacts import ModelAges
from components.older_versions import measurement
from components.version_driver import VersionDriver
from contracts.settings.sections import Reads, Sections
from contracts.storage import uris
from contracts.versions import exported_model, served_versions

logger = logging.getLogger(__name__)


class Driver(VersionDriver):
    """Adds the older versions to the cache key."""

    def find_version(self, execution_info: data_types.ExecutionInfo) -> str:
        """Returns the versions; empty without older versions."""
        (candidate,) = execution_info.input_dict["candidate"]
        properties = execution_info.exec_properties
        settings = Sections.parse(properties["settings"])
        return _find_versions(properties["directory"], candidate, settings)


@tfx.dsl.components.component
def OlderVersions(
    candidate: tfx.dsl.components.InputArtifact[tfx.types.standard_artifacts.ModelRun],
    examples: tfx.dsl.components.InputArtifact[tfx.types.standard_artifacts.Examples],
    ages: tfx.dsl.components.OutputArtifact[ModelAges],
    directory: tfx.dsl.components.Parameter[str],
    settings: tfx.dsl.components.Parameter[str],
    splitting: tfx.dsl.components.Parameter[str],
    fingerprint: tfx.dsl.components.Parameter[str],
    version: tfx.dsl.components.Parameter[str] = None,
) -> None:
    """Predicts the evaluated rows with older versions, and compares the metrics.

    It decides nothing. An orchestrator without drivers must not cache this component,
    because a new version changes none of its inputs.

    Args:
      candidate: The Trainer's `ModelRun`, with the predictions of the new model.
      examples: The raw Examples.
      ages: `ages.json`, a `contracts.records.ages.ModelAges`.
      directory: Contains the pushed versions.
      settings: JSON of the settings in `READS`.
      splitting: JSON: the `splitting` of the data's card. null if their splits were not
        made here, or if they are a span. A version whose data were split in another way
        may have trained on rows that are evaluated.
      fingerprint: Hash of this code; part of the cache key.
      version: The versions to measure, the newest first, with commas between them. Set
        by the driver, empty without older versions; None if no driver runs.
    """
    del fingerprint
    config = Sections.parse(settings)
    if version is None:
        version = _find_versions(directory, candidate, config)
    paths = [uris.join(directory, name) for name in version.split(",") if name]
    result = measurement.measure(
        config, json.loads(splitting), examples, candidate.uri, paths
    )
    result.write(ages.uri)
    for warning in result.warnings:
        logger.warning(warning)


def _find_versions(
    directory: str, candidate: types.Artifact, settings: Sections
) -> str:
    excluded = exported_model.read_digest(candidate.uri).identity
    others = served_versions.list_others(directory, excluded)
    return ",".join(itertools.islice(others, settings.evaluator.older_versions))


OlderVersions.DRIVER_CLASS = Driver
OlderVersions.READS = Reads(
    task=True,
    evaluator={"split", "older_versions", "older_version_rows"},
    serving={"tf_serving_version", "max_memory_bytes", "timeout_seconds"},
)
