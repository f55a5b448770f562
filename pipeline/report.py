"""What a run did, read back from ML Metadata and from TFMA's results."""

from __future__ import annotations

import dataclasses
from pathlib import Path
from typing import Literal

import tensorflow_model_analysis as tfma
from ml_metadata import MetadataStore
from ml_metadata.proto import metadata_store_pb2 as mlmd

from modules import evaluation
from pipeline.config import Config
from pipeline.paths import OutputPaths

_MILLISECONDS = 1000
_DIFFERENCE = "_diff"


@dataclasses.dataclass(frozen=True)
class ComponentRun:
    """One component's part of a run.

    Attributes:
      name: The component's id.
      seconds: How long it took.
      state: `run`, `cached` where an earlier execution's outputs were taken, or
        `resolved` for a resolver, which only looks artifacts up and does so always.
    """

    name: str
    seconds: float
    state: Literal["run", "cached", "resolved"]


@dataclasses.dataclass(frozen=True)
class MetricResult:
    """One metric on all rows of the gate's split.

    Attributes:
      name: The metric.
      candidate: The new model's value.
      champion: The champion's value; None where there is no champion.
      threshold: Lowest value allowed, or None.
      max_regression: Largest fall below the champion allowed, or None.
    """

    name: str
    candidate: float
    champion: float | None
    threshold: float | None
    max_regression: float | None

    @property
    def failures(self) -> list[str]:
        """What the metric falls short of, in words."""
        found = []
        # Not `<`: NaN must fail, and TFMA allows the bound itself.
        if self.threshold is not None and not self.candidate >= self.threshold:
            found.append(
                f"{self.name} is {self.candidate:.4f}, the threshold is "
                f"{self.threshold:.4f}"
            )
        if (
            self.max_regression is not None
            and self.champion is not None
            and not self.candidate - self.champion >= -self.max_regression
        ):
            found.append(
                f"{self.name} is {self.candidate:.4f}, more than "
                f"{self.max_regression:.4f} below the champion's {self.champion:.4f}"
            )
        return found


@dataclasses.dataclass(frozen=True)
class RunReport:
    """A finished run.

    Attributes:
      components: In the order they ran.
      metrics: Of the candidate, on all rows of the gate's split.
      pushed: The directory that the model is served from; None where it was refused.
    """

    components: list[ComponentRun]
    metrics: list[MetricResult]
    pushed: str | None


class MetadataReader:
    """Reads the latest pipeline run of an ML Metadata store."""

    def __init__(self, database: Path) -> None:
        """Connects to a SQLite database of ML Metadata."""
        connection = mlmd.ConnectionConfig()
        connection.sqlite.filename_uri = str(database)
        connection.sqlite.connection_mode = mlmd.SqliteMetadataSourceConfig.READONLY
        self._store = MetadataStore(connection)
        self._resolvers = {
            kind.id
            for kind in self._store.get_execution_types()
            if kind.name.endswith(".Resolver")
        }

    def latest_run(self) -> list[tuple[ComponentRun, mlmd.Execution]]:
        """Returns the component executions of the latest run, in order."""
        runs = self._store.get_contexts_by_type("pipeline_run")
        latest = max(runs, key=lambda context: context.id)
        executions = self._store.get_executions_by_context(latest.id)
        return [
            (self._component_run(execution), execution)
            for execution in sorted(executions, key=lambda e: e.id)
        ]

    def inputs(self, execution: mlmd.Execution) -> dict[str, mlmd.Artifact]:
        """Returns an execution's input artifacts by key."""
        return self._artifacts(execution, mlmd.Event.INPUT)

    def outputs(self, execution: mlmd.Execution) -> dict[str, mlmd.Artifact]:
        """Returns an execution's output artifacts by key."""
        return self._artifacts(execution, mlmd.Event.OUTPUT)

    def _artifacts(
        self, execution: mlmd.Execution, kind: mlmd.Event.Type
    ) -> dict[str, mlmd.Artifact]:
        events = [
            event
            for event in self._store.get_events_by_execution_ids([execution.id])
            if event.type == kind
        ]
        artifacts = self._store.get_artifacts_by_id([e.artifact_id for e in events])
        by_id = {artifact.id: artifact for artifact in artifacts}
        return {event.path.steps[0].key: by_id[event.artifact_id] for event in events}

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
            state=self._state(execution),
        )

    def _state(self, execution: mlmd.Execution) -> Literal["run", "cached", "resolved"]:
        if execution.type_id in self._resolvers:
            return "resolved"
        is_cached = execution.last_known_state == mlmd.Execution.CACHED
        return "cached" if is_cached else "run"


def read_report(config: Config, paths: OutputPaths) -> RunReport:
    """Reads what the latest run did.

    Args:
      config: The settings it ran with.
      paths: Where it wrote.
    """
    reader = MetadataReader(paths.metadata)
    components, inputs, outputs = [], {}, {}
    for component, execution in reader.latest_run():
        components.append(component)
        inputs.update(reader.inputs(execution))
        outputs.update(reader.outputs(execution))
    pushed = outputs["pushed_model"].custom_properties
    return RunReport(
        components=components,
        metrics=read_metrics(
            outputs["evaluation"].uri, config, has_champion="baseline_model" in inputs
        ),
        pushed=pushed["pushed_destination"].string_value
        if pushed["pushed"].int_value
        else None,
    )


def read_metrics(
    evaluation_uri: str, config: Config, *, has_champion: bool
) -> list[MetricResult]:
    """Reads the metrics on all rows, of the candidate and of its champion.

    Args:
      evaluation_uri: The Evaluator's `evaluation` artifact.
      config: Names the bounds.
      has_champion: Whether the candidate was compared with one. TFMA names the
        models only then.
    """
    name = tfma.CANDIDATE_KEY if has_champion else ""
    candidate = _overall(tfma.load_eval_result(evaluation_uri, model_name=name))
    champion = {}
    if has_champion:
        champion = _overall(
            tfma.load_eval_result(evaluation_uri, model_name=tfma.BASELINE_KEY)
        )
    return [
        MetricResult(
            name=name,
            candidate=value,
            champion=champion.get(name),
            threshold=config.evaluator.thresholds.get(name),
            max_regression=config.evaluator.max_regression.get(name),
        )
        for name, value in candidate.items()
    ]


def _overall(result: tfma.EvalResult) -> dict[str, float]:
    metrics = next(dict(m) for key, m in result.slicing_metrics if not key)
    by_key = metrics[""]
    values: dict[str, float] = {}
    for key in ("", evaluation.POSITIVE_CLASS_KEY):
        for name, value in by_key.get(key, {}).items():
            # TFMA adds the difference to the champion beside each metric.
            if "doubleValue" in value and not name.endswith(_DIFFERENCE):
                values[name] = float(value["doubleValue"])
    return values
