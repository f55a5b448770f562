"""Writes output directories of runs, as TFX and `run` leave them."""

import contextlib
import datetime
import hashlib
import json
import sqlite3
from pathlib import Path

from ml_metadata import MetadataStore
from ml_metadata.proto import metadata_store_pb2 as mlmd

from contracts.records.evaluation import Verdict
from pipeline.config.paths import OutputPaths
from pipeline.operations.record import RunRecord

ID_FORMAT = "%Y%m%d-%H%M%SZ-%f"


class PastRuns:
    """An output directory with a database of ML Metadata.

    Args:
      root: A new directory.
    """

    def __init__(self, root):
        self.paths = OutputPaths(root, "tiny")
        root.mkdir()
        connection = mlmd.ConnectionConfig()
        connection.sqlite.filename_uri = str(self.paths.metadata)
        connection.sqlite.connection_mode = (
            mlmd.SqliteMetadataSourceConfig.READWRITE_OPENCREATE
        )
        self._store = MetadataStore(connection)
        self._started = datetime.datetime(2026, 1, 1, tzinfo=datetime.timezone.utc)

    def run(self, state="pushed", **fields):
        """Adds a record of the next run, an hour after the last one.

        Args:
          state: Its state.
          **fields: Its other fields; they replace the default ones.
        """
        self._started += datetime.timedelta(hours=1)
        stored = self._started + datetime.timedelta(seconds=9)
        tfx_run_id = stored.replace(tzinfo=None).isoformat()
        defaults = {
            "id": self._started.strftime(ID_FORMAT),
            "recipe": "tiny",
            "metric": "accuracy",
            "tfx_run_id": None if state == "running" else tfx_run_id,
        }
        record = RunRecord(state=state, **(defaults | fields))
        if state != "running" and "ended" not in fields:
            record.ended = record.started + datetime.timedelta(minutes=2)
        directory = self.paths.run(record.id)
        directory.mkdir(parents=True)
        record.write(directory)
        self._run = self._put_context("pipeline_run", record.tfx_run_id or tfx_run_id)
        if "id" not in fields:
            self._set_time(self._run, stored)
        return record

    def refuse(self, **fields):
        """Adds a run whose model only the gate refused.

        Args:
          **fields: Fields of its record; they replace the default ones.

        Returns:
          Its record, and the directory of the model.
        """
        record = self.run("refused", **fields)
        (model,) = self.execute("Trainer", ["model: Model"])
        directory = Path(model.uri, "Format-Serving")
        directory.mkdir()
        (directory / "saved_model.pb").write_text("graph")
        (directory / "fingerprint.pb").write_text("identity")
        verdict, _ = self.execute(
            "Evaluator", ["verdict: ModelVerdict", "blessing: ModelBlessing"]
        )
        content = Verdict(blessed=False, splits=["eval"], champion=None, metrics=[])
        self.write_json(verdict, "verdict.json", content.as_json())
        self.execute("ServingCheck", ["blessing: InfraBlessing"])
        self.execute("AtomicPusher", ["pushed_model: PushedModel"])
        return record, directory

    def push(self, version):
        """Writes a version as `served_versions.push` does; returns its directory."""
        directory = self.paths.pushed / str(version)
        directory.mkdir(parents=True)
        graph = f"graph of {version}".encode()
        (directory / "saved_model.pb").write_bytes(graph)
        sha256 = hashlib.sha256(graph).hexdigest()
        files = {"saved_model.pb": {"size": len(graph), "sha256": sha256}}
        (directory / "manifest.json").write_text(json.dumps({"files": files}))
        return directory

    def execute(
        self,
        component,
        outputs=(),
        inputs=(),
        state=mlmd.Execution.COMPLETE,
        work=lambda: None,
        **values,
    ):
        """Adds an execution to the last run.

        Args:
          component: Its id.
          outputs: Types of the artifacts that it writes, or artifacts of an earlier
            execution that it reuses.
          inputs: The artifacts that it reads.
          state: Its state at the end.
          work: Called between its start and its end.
          **values: Its properties.

        Returns:
          Its output artifacts.
        """
        kind = mlmd.ExecutionType(name=f"type of {component}")
        execution = mlmd.Execution(type_id=self._store.put_execution_type(kind))
        for name, value in values.items():
            execution.custom_properties[name].string_value = value
        contexts = [self._run, self._put_context("node", f"tiny.{component}")]
        execution.last_known_state = mlmd.Execution.RUNNING
        (number,) = self._store.put_executions([execution])
        work()
        execution.id = number
        execution.last_known_state = state
        written = [
            self._new_artifact(component, output, number)
            if isinstance(output, str)
            else output
            for output in outputs
        ]
        pairs = [
            *((a, event(mlmd.Event.INPUT, f"in_{i}")) for i, a in enumerate(inputs)),
            *((a, event(mlmd.Event.OUTPUT, key_of(a))) for a in written),
        ]
        _, ids, _ = self._store.put_execution(execution, pairs, contexts)
        return self._store.get_artifacts_by_id(ids[len(inputs) :])

    def set_property(self, artifact, name, value):
        artifact.custom_properties[name].string_value = value
        self._store.put_artifacts([artifact])

    def set_uri(self, artifact, path):
        artifact.uri = str(path)
        self._store.put_artifacts([artifact])

    def write_json(self, artifact, name, content):
        Path(artifact.uri, name).write_text(json.dumps(content))

    def _set_time(self, context, time):
        """Sets when ML Metadata stored a context."""
        with contextlib.closing(sqlite3.connect(self.paths.metadata)) as database:
            database.execute(
                "UPDATE Context SET create_time_since_epoch = ? WHERE id = ?",
                (int(time.timestamp() * 1000), context.id),
            )
            database.commit()

    def _put_context(self, type_name, name):
        kind = self._store.put_context_type(mlmd.ContextType(name=type_name))
        for context in self._store.get_contexts_by_type(type_name):
            if context.name == name:
                return context
        context = mlmd.Context(type_id=kind, name=name)
        (context.id,) = self._store.put_contexts([context])
        return context

    def _new_artifact(self, component, output, number):
        """Returns an artifact of `KEY: TYPE` with a directory."""
        key, _, type_name = output.partition(": ")
        kind = self._store.put_artifact_type(mlmd.ArtifactType(name=type_name))
        path = self.paths.artifacts / component / key / str(number)
        path.mkdir(parents=True)
        (path / "content").write_text("content")
        return mlmd.Artifact(type_id=kind, uri=str(path), state=mlmd.Artifact.LIVE)


def key_of(artifact):
    return Path(artifact.uri).parent.name


def event(kind, key):
    step = mlmd.Event.Path.Step(key=key)
    return mlmd.Event(type=kind, path=mlmd.Event.Path(steps=[step]))
