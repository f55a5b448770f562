"""The driver of Report, which reads what ML Metadata has about the run."""

from __future__ import annotations

import json
from typing import Any

from ml_metadata.metadata_store import metadata_store as mlmd_store
from ml_metadata.proto import metadata_store_pb2 as mlmd
from tfx.dsl.components.base import base_driver
from tfx.orchestration import metadata
from tfx.orchestration.portable import base_driver as portable_driver
from tfx.orchestration.portable import data_types
from tfx.proto.orchestration import driver_output_pb2

from components.artifacts import HTML, MISSING

COMPONENTS_KEY = "components"
LAST_FAILURE_KEY = "last_failure"
_RUN_TYPE = "pipeline_run"
_NODE_TYPE = "node"
_FINISHED = (mlmd.Execution.COMPLETE, mlmd.Execution.CACHED)
_MILLISECONDS = 1000


class RunFacts(base_driver.BaseDriver, portable_driver.BaseDriver):
    """Sets the parameters `components` and `last_failure` of Report.

    A cached component counts with the time of the execution that it is taken from, so
    that the report of a fully cached run is cached, too. A page with an error is not:
    its ID changes the next run's key. See `VersionDriver` for the two base classes.
    """

    def __init__(self, metadata_handle: metadata.Metadata) -> None:
        base_driver.BaseDriver.__init__(self, metadata_handle)
        portable_driver.BaseDriver.__init__(self, metadata_handle)

    def run(
        self, execution_info: data_types.ExecutionInfo
    ) -> driver_output_pb2.DriverOutput:
        """Returns the components of this run before Report, in their order."""
        with self._metadata_handle as handle:
            components = _read(handle.store, execution_info)
            failures = [
                page.id
                for page in handle.store.get_artifacts_by_type(HTML.TYPE_NAME)
                if MISSING in page.custom_properties
            ]
        output = driver_output_pb2.DriverOutput()
        properties = output.exec_properties
        properties[COMPONENTS_KEY].string_value = json.dumps(components)
        properties[LAST_FAILURE_KEY].int_value = max(failures, default=0)
        return output


def _read(
    store: mlmd_store.MetadataStore, execution_info: data_types.ExecutionInfo
) -> list[dict[str, Any]]:
    run = store.get_context_by_type_and_name(_RUN_TYPE, execution_info.pipeline_run_id)
    executions = store.get_executions_by_context(run.id)
    return [
        _describe(store, execution)
        for execution in sorted(executions, key=lambda each: each.id)
        if execution.last_known_state in _FINISHED  # Report itself is running
    ]


def _describe(
    store: mlmd_store.MetadataStore, execution: mlmd.Execution
) -> dict[str, Any]:
    (node,) = (
        context
        for context in store.get_contexts_by_execution(execution.id)
        if context.type == _NODE_TYPE
    )
    seconds = 0.0  # of a cached component without outputs
    if producer := _producer(store, execution):
        start = producer.create_time_since_epoch
        seconds = (producer.last_update_time_since_epoch - start) / _MILLISECONDS
    return {"name": node.name.rpartition(".")[2], "seconds": seconds}


def _producer(
    store: mlmd_store.MetadataStore, execution: mlmd.Execution
) -> mlmd.Execution | None:
    """Returns the execution that wrote the outputs of a cached one, or itself."""
    if execution.last_known_state != mlmd.Execution.CACHED:
        return execution
    outputs = [
        event.artifact_id
        for event in store.get_events_by_execution_ids([execution.id])
        if event.type == mlmd.Event.OUTPUT
    ]
    producers = [
        event.execution_id
        for event in store.get_events_by_artifact_ids(outputs)
        if event.type == mlmd.Event.OUTPUT
    ]
    if not producers:
        return None
    (producer,) = store.get_executions_by_id([min(producers)])
    return producer
