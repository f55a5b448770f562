"""The report of a run on this machine, from ML Metadata."""

from __future__ import annotations

import dataclasses
import shutil
from pathlib import Path
from typing import Any

from ml_metadata import MetadataStore
from ml_metadata.proto import metadata_store_pb2 as mlmd

from components.artifacts import PUSHED_DESTINATION
from components.data_gate import DataGate, read_data_verdict
from components.evaluator import Evaluator, Verdict, read_verdict
from components.pusher import AtomicPusher
from components.report import Report
from components.report_files import JSON_FILE, PAGE_FILE
from components.serving_check import ServingCheck
from components.serving_check import read_report as read_serving_report
from modules.report import functions as report_functions
from pipeline.config.paths import OutputPaths
from pipeline.config.recipe import Config
from pipeline.inputs.examples.bad_rows import BadRowsError

# The type of the contexts that TFX creates, one per run.
_RUN_TYPE = "pipeline_run"
_MILLISECONDS = 1000


@dataclasses.dataclass(frozen=True)
class ComponentRun:
    """An execution of a component.

    Attributes:
      name: The component's id.
      seconds: Duration of the execution.
      is_cached: Whether its outputs are those of an earlier execution.
    """

    name: str
    seconds: float
    is_cached: bool


@dataclasses.dataclass(frozen=True)
class RunReport:
    """A finished run.

    Attributes:
      components: In the order of their start.
      data: The verdict of DataGate, of this run or the one that it was cached from.
      verdict: The Evaluator's, with the metrics on all rows of `evaluator.split`.
      serving_failures: Why the serving check refused the model.
      pushed: The directory that the model is served from; None if it was refused.
      page: The report for a person, with its numbers beside it.
    """

    components: list[ComponentRun]
    data: dict[str, Any]
    verdict: Verdict
    serving_failures: list[str]
    pushed: str | None
    page: Path


class MetadataReader:
    """Reads pipeline runs of a SQLite database of ML Metadata."""

    def __init__(self, database: Path) -> None:
        connection = mlmd.ConnectionConfig()
        connection.sqlite.filename_uri = str(database)
        connection.sqlite.connection_mode = mlmd.SqliteMetadataSourceConfig.READONLY
        self._store = MetadataStore(connection)

    def latest_run_id(self) -> str:
        """Returns TFX's id of the latest run."""
        runs = self._store.get_contexts_by_type(_RUN_TYPE)
        return max(runs, key=lambda context: context.id).name

    def latest_run(self) -> list[tuple[ComponentRun, mlmd.Execution]]:
        """Returns the component executions of the latest run, in order."""
        return self.executions(self.latest_run_id())

    def executions(self, run_id: str) -> list[tuple[ComponentRun, mlmd.Execution]]:
        """Returns the component executions of a run, in order."""
        run = self._store.get_context_by_type_and_name(_RUN_TYPE, run_id)
        executions = self._store.get_executions_by_context(run.id)
        return [
            (self._component_run(execution), execution)
            for execution in sorted(executions, key=lambda e: e.id)
        ]

    def outputs(self, execution: mlmd.Execution) -> dict[str, mlmd.Artifact]:
        """Returns an execution's output artifacts by key."""
        events = [
            event
            for event in self._store.get_events_by_execution_ids([execution.id])
            if event.type == mlmd.Event.OUTPUT
        ]
        artifacts = self._store.get_artifacts_by_id([e.artifact_id for e in events])
        by_id = {artifact.id: artifact for artifact in artifacts}
        return {event.path.steps[0].key: by_id[event.artifact_id] for event in events}

    def producer(self, artifact: mlmd.Artifact) -> ComponentRun:
        """Returns the execution that wrote an artifact, not those that reuse it."""
        producers = [
            event.execution_id
            for event in self._store.get_events_by_artifact_ids([artifact.id])
            if event.type == mlmd.Event.OUTPUT
        ]
        (execution,) = self._store.get_executions_by_id([min(producers)])
        return self._component_run(execution)

    def _node_name(self, execution: mlmd.Execution) -> str:
        (node,) = (
            context
            for context in self._store.get_contexts_by_execution(execution.id)
            if context.type == "node"
        )
        return node.name.rpartition(".")[2]

    def _component_run(self, execution: mlmd.Execution) -> ComponentRun:
        elapsed = (
            execution.last_update_time_since_epoch - execution.create_time_since_epoch
        )
        return ComponentRun(
            name=self._node_name(execution),
            seconds=elapsed / _MILLISECONDS,
            is_cached=execution.last_known_state == mlmd.Execution.CACHED,
        )


def read_report(paths: OutputPaths) -> RunReport:
    """Reads the report of the latest run.

    Args:
      paths: The output directory of the run.
    """
    reader = MetadataReader(paths.metadata)
    components, outputs = [], {}
    for component, execution in reader.latest_run():
        components.append(component)
        for key, artifact in reader.outputs(execution).items():
            outputs[component.name, key] = artifact
    pushed = outputs[AtomicPusher.__name__, "pushed_model"].custom_properties
    return RunReport(
        components=components,
        data=read_data_verdict(outputs[DataGate.__name__, "verdict"].uri),
        verdict=read_verdict(outputs[Evaluator.__name__, "verdict"].uri),
        serving_failures=read_serving_report(
            outputs[ServingCheck.__name__, "blessing"].uri
        )["reasons"],
        pushed=pushed[PUSHED_DESTINATION].string_value
        if pushed["pushed"].int_value
        else None,
        page=Path(outputs[Report.__name__, "report"].uri),
    )


def copy_report(report: RunReport, record: Path) -> RunReport:
    """Copies a report to the record of a run, which outlasts the artifacts.

    Args:
      report: The finished run.
      record: The record of the run.

    Returns:
      The finished run with the copied page.
    """
    for name in (PAGE_FILE, JSON_FILE):
        shutil.copyfile(report.page.with_name(name), record / name)
    return dataclasses.replace(report, page=record / PAGE_FILE)


def report_bad_rows(config: Config, error: BadRowsError) -> tuple[str, str]:
    """Returns numbers and page of a report of rows that cannot be read."""
    settings = {
        "pipeline": config.name,
        "task": config.task.model_dump(),
        "gate_split": config.evaluator.split,
        "max_seq_length": config.preprocessing.max_seq_length,
    }
    verdict = {
        "card": error.card.model_dump(),
        "profile": {},
        "warnings": [],
        "notes": [],
        "problems": str(error).splitlines(),
    }
    facts = {"statistics": {}, "data_verdict": verdict}
    return report_functions.describe_refused_data(facts, settings)
