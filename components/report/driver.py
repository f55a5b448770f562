"""The driver of Report, which reads the run's executions from ML Metadata."""

from __future__ import annotations

import json
from collections.abc import Iterable

from tfx.dsl.components.base import base_driver
from tfx.orchestration import metadata
from tfx.orchestration.portable import base_driver as portable_driver
from tfx.orchestration.portable import data_types
from tfx.proto.orchestration import driver_output_pb2

from components.artifacts import HTML
from contracts.verdicts import MISSING
from contracts.versions import exported_model, served_versions
from report.run_metadata import MetadataReader

COMPONENTS_KEY = "components"
LAST_FAILURE_KEY = "last_failure"
VERSIONS_KEY = "versions"


class RunFacts(base_driver.BaseDriver, portable_driver.BaseDriver):
    """Sets the parameters `components`, `versions` and `last_failure` of Report.

    The time of a cached component is that of the execution that wrote its outputs, so
    that the report of a fully cached run is cached, too. A page with an error is not
    cached, because its ID changes the next run's key. See `VersionDriver` for the two
    base classes.
    """

    def __init__(self, metadata_handle: metadata.Metadata) -> None:
        base_driver.BaseDriver.__init__(self, metadata_handle)
        portable_driver.BaseDriver.__init__(self, metadata_handle)

    def run(
        self, execution_info: data_types.ExecutionInfo
    ) -> driver_output_pb2.DriverOutput:
        """Returns the parameters; the components are those before Report, in order."""
        with self._metadata_handle as handle:
            reader = MetadataReader(handle.store)
            components = {
                run.name: reader.working_seconds(execution)
                for run, execution in reader.executions(execution_info.pipeline_run_id)
                if run.state in ("done", "cached")  # Report itself is running
            }
            failures = [
                page.id
                for page in reader.artifacts(HTML.TYPE_NAME)
                if MISSING in page.custom_properties
            ]
        output = driver_output_pb2.DriverOutput()
        properties = output.exec_properties
        properties[COMPONENTS_KEY].string_value = json.dumps(components)
        properties[LAST_FAILURE_KEY].int_value = max(failures, default=0)
        parameters = execution_info.exec_properties
        others: Iterable[str] = ()
        if json.loads(parameters["checks"])["sections"]:
            (trained,) = execution_info.input_dict["model_run"]
            identity = exported_model.read_digest(trained.uri).identity
            others = served_versions.list_others(parameters["pushed"], identity)
        properties[VERSIONS_KEY].string_value = ",".join(others)
        return output
