"""Reads pipeline runs from ML Metadata, without TensorFlow and TFX."""

from __future__ import annotations

import contextlib
import dataclasses
import datetime
import os
import shutil
import sqlite3
import time
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any

from ml_metadata import MetadataStore
from ml_metadata.proto import metadata_store_pb2 as mlmd

from contracts.errors import UsageError
from contracts.run_states import ComponentState

# The types of the contexts that TFX creates for each run and for each component.
RUN_TYPE = "pipeline_run"
_NODE_TYPE = "node"
_MILLISECONDS = 1000
_Event = mlmd.Event
_STATES: dict[int, ComponentState] = {
    mlmd.Execution.COMPLETE: "done",
    mlmd.Execution.CACHED: "cached",
    mlmd.Execution.RUNNING: "running",
    mlmd.Execution.FAILED: "failed",
    mlmd.Execution.CANCELED: "interrupted",
}
# Table, column, and where its values must be, too. The database does not check it.
_REFERENCES = (
    ("Context", "type_id", "id FROM Type"),
    ("Execution", "type_id", "id FROM Type"),
    ("Artifact", "type_id", "id FROM Type"),
    ("Association", "context_id", "id FROM Context"),
    ("Association", "execution_id", "id FROM Execution"),
    ("Execution", "id", "execution_id FROM Association"),
    ("Event", "execution_id", "id FROM Execution"),
    ("Event", "artifact_id", "id FROM Artifact"),
    ("Event", "id", "event_id FROM EventPath"),
    ("Artifact", "id", "artifact_id FROM Event"),
)


class MetadataError(UsageError):
    """A file is not a whole database of ML Metadata, or lacks a property."""


@dataclasses.dataclass(frozen=True)
class ComponentRun:
    """An execution of a component.

    Attributes:
      name: The component's id.
      seconds: Duration of the execution, up to now if it is running; 0 if the clock
        was set back.
      state: `done`, `cached`, `failed`, `interrupted` or `running`. ML Metadata has
        `running` for a killed execution, too; `pipeline.operations.run` finds those.
    """

    name: str
    seconds: float
    state: ComponentState

    @property
    def is_cached(self) -> bool:
        """Whether its outputs are those of an earlier execution."""
        return self.state == "cached"


class MetadataReader:
    """Reads a store of ML Metadata, also while a run writes to it."""

    def __init__(self, store: MetadataStore) -> None:
        self._store = store

    @classmethod
    def of_file(cls, database: Path) -> MetadataReader:
        """Reads a SQLite database, which must exist.

        Raises:
          MetadataError: It is not a whole database of ML Metadata.
        """
        return cls(connect(database))

    def run_times(self) -> dict[str, datetime.datetime]:
        """Returns TFX's ids of all runs and when they were stored, the oldest first."""
        runs = self._store.get_contexts_by_type(RUN_TYPE)
        return {
            context.name: creation_time(context)
            for context in sorted(runs, key=lambda run: run.id)
        }

    def run_ids(self) -> list[str]:
        """Returns TFX's ids of all runs, the oldest first."""
        return list(self.run_times())

    def latest_run_id(self) -> str:
        """Returns TFX's id of the latest run."""
        return self.run_ids()[-1]

    def latest_run(self) -> list[tuple[ComponentRun, mlmd.Execution]]:
        """Returns the component executions of the latest run, in order."""
        return self.executions(self.latest_run_id())

    def executions(self, run_id: str) -> list[tuple[ComponentRun, mlmd.Execution]]:
        """Returns the component executions of a run, in order; none if unknown."""
        run = self._store.get_context_by_type_and_name(RUN_TYPE, run_id)
        if run is None:
            return []
        executions = self._store.get_executions_by_context(run.id)
        return [
            (self.describe(execution), execution)
            for execution in sorted(executions, key=lambda e: e.id)
        ]

    def all_executions(self) -> list[mlmd.Execution]:
        """Returns all executions, also those of no run, in order."""
        return sorted(self._store.get_executions(), key=lambda e: e.id)

    def outputs(self, execution: mlmd.Execution) -> dict[str, mlmd.Artifact]:
        """Returns an execution's output artifacts by key."""
        return self._artifacts(execution, _Event.OUTPUT)

    def inputs(self, execution: mlmd.Execution) -> dict[str, mlmd.Artifact]:
        """Returns an execution's input artifacts by key."""
        return self._artifacts(execution, _Event.INPUT)

    def artifacts(self, type_name: str | None = None) -> list[mlmd.Artifact]:
        """Returns all artifacts, or those of a type, the oldest first."""
        if type_name is None:
            artifacts = self._store.get_artifacts()
        else:
            artifacts = self._store.get_artifacts_by_type(type_name)
        return sorted(artifacts, key=lambda artifact: artifact.id)

    def used_by(self, executions: Iterable[mlmd.Execution]) -> set[int]:
        """Returns the ids of all artifacts that executions read or wrote."""
        ids = [execution.id for execution in executions]
        events = self._store.get_events_by_execution_ids(ids) if ids else []
        return {event.artifact_id for event in events}

    def producing_execution(self, artifact: mlmd.Artifact) -> mlmd.Execution:
        """Returns the execution that wrote an artifact, not those that reuse it."""
        producers = [
            event.execution_id
            for event in self._store.get_events_by_artifact_ids([artifact.id])
            if event.type == _Event.OUTPUT
        ]
        (execution,) = self._store.get_executions_by_id([min(producers)])
        return execution

    def working_seconds(self, execution: mlmd.Execution) -> float:
        """Returns how long it took to compute the outputs of an execution.

        For a cached execution, this is the duration of the execution that wrote its
        outputs, or 0 if it has no outputs.
        """
        if execution.last_known_state == mlmd.Execution.CACHED:
            artifacts = list(self.outputs(execution).values())
            if not artifacts:
                return 0.0
            execution = self.producing_execution(artifacts[0])
        return self.describe(execution).seconds

    def run_id_of(self, execution: mlmd.Execution) -> str:
        """Returns TFX's id of the run of an execution."""
        return self._context_name(execution, RUN_TYPE) or ""

    def describe(self, execution: mlmd.Execution) -> ComponentRun:
        """Returns name, duration and state of an execution."""
        state = _STATES.get(execution.last_known_state, "waiting")
        end = execution.last_update_time_since_epoch
        if state == "running":
            end = time.time() * _MILLISECONDS
        node = self._context_name(execution, _NODE_TYPE)
        # TFX names the context of a component PIPELINE.COMPONENT.
        name = execution.type if node is None else node.rpartition(".")[2]
        return ComponentRun(
            name=name,
            seconds=max(0, end - execution.create_time_since_epoch) / _MILLISECONDS,
            state=state,
        )

    def _context_name(self, execution: mlmd.Execution, type_name: str) -> str | None:
        for context in self._store.get_contexts_by_execution(execution.id):
            if context.type == type_name:
                return context.name
        return None

    def _artifacts(
        self, execution: mlmd.Execution, event_type: int
    ) -> dict[str, mlmd.Artifact]:
        events = [
            event
            for event in self._store.get_events_by_execution_ids([execution.id])
            if event.type == event_type
        ]
        artifacts = self._store.get_artifacts_by_id([e.artifact_id for e in events])
        by_id = {artifact.id: artifact for artifact in artifacts}
        # The first step of an event's path is the key of the input or output.
        return {event.path.steps[0].key: by_id[event.artifact_id] for event in events}


def has_content(database: Path) -> bool:
    """Returns whether a database exists and is not the empty file of a killed run."""
    return database.exists() and database.stat().st_size > 0


def connect(database: Path, *, is_writable: bool = False) -> MetadataStore:
    """Opens a SQLite database of ML Metadata.

    SQLite waits while another process writes, so a run is not disturbed.

    Args:
      database: The file, which must exist.
      is_writable: Whether to open it for writing.

    Raises:
      MetadataError: It is not a whole database of ML Metadata.
    """
    try:
        _check(database)
        return _connect(database, is_writable=is_writable)
    except UnicodeEncodeError as error:
        raise MetadataError(
            str(database),
            "ML Metadata reads only paths in UTF-8",
            advice="rename the directory",
            name="E-path-pattern",
        ) from error
    except (sqlite3.Error, RuntimeError) as error:
        advice = (
            "restore it from a backup, or move it and `artifacts` next to it away: the "
            "next run creates new ones"
        )
        if "locked" in str(error):
            advice = "wait until the program that writes to it ends"
        if isinstance(error, sqlite3.Error) and "readonly" in str(error):
            # The transaction of a killed process cannot be undone.
            advice = "repeat the command as a user who may write to it"
        (reason, *_) = str(error).splitlines()
        raise MetadataError(
            str(database),
            f"cannot be read as ML Metadata: {reason}",
            advice=advice,
            name="E-record-damaged",
        ) from error


def _check(database: Path) -> None:
    """Raises sqlite3.Error unless a file is a whole database of ML Metadata.

    MetadataStore creates its tables in any database that it may write to, waits 40
    seconds for a lock, and reads a damaged database until it reaches the damage.
    Opened for writing, SQLite undoes the transaction of a killed process; a reader,
    such as MetadataStore, cannot. It opens a write-protected file for reading.
    """
    if database.is_dir():  # of which SQLite reports an I/O error
        raise sqlite3.DatabaseError("it is a directory")
    address = f"{database.absolute().as_uri()}?mode=rw"
    with contextlib.closing(sqlite3.connect(address, uri=True)) as connection:
        connection.execute("BEGIN")  # a run may write between two queries
        connection.execute("SELECT schema_version FROM MLMDEnv").fetchone()
        ((result,),) = connection.execute("PRAGMA quick_check(1)")
        if result != "ok":
            raise sqlite3.DatabaseError(result)
        for table, column, others in _REFERENCES:
            missing = f"SELECT 1 FROM {table} WHERE {column} NOT IN (SELECT {others})"
            if connection.execute(missing).fetchone():
                raise sqlite3.DatabaseError(f"{table} lacks rows of: {others}")


def _connect(database: Path, *, is_writable: bool) -> MetadataStore:
    connection = mlmd.ConnectionConfig()
    connection.sqlite.filename_uri = str(database)
    modes = mlmd.SqliteMetadataSourceConfig
    connection.sqlite.connection_mode = (
        modes.READWRITE if is_writable else modes.READONLY
    )
    return MetadataStore(connection)


@contextlib.contextmanager
def writing(database: Path) -> Iterator[MetadataStore]:
    """Opens a SQLite database for writing; an error leaves it as it was before.

    No other process may write to it. If SQLite cannot write a page, it undoes the
    transaction, and ML Metadata writes the rest of it without one ("cannot commit - no
    transaction is active"): associations without their executions, for example.

    Raises:
      MetadataError: It is not a whole database of ML Metadata.
    """
    store = connect(database, is_writable=True)
    before = database.with_name(f".{database.name}.before")
    try:
        shutil.copy2(database, before)
        try:
            yield store
        except BaseException:
            os.replace(before, database)  # needs no space
            # SQLite would apply a journal that is left to the copy.
            database.with_name(f"{database.name}-journal").unlink(missing_ok=True)
            raise
    finally:
        with contextlib.suppress(OSError):  # it would hide the error above
            before.unlink()


def mark_as_deleted(database: Path, artifacts: Sequence[int]) -> None:
    """Marks artifacts as deleted, so that TFX's cache does not return them."""
    if artifacts:
        store = connect(database, is_writable=True)
        marked = store.get_artifacts_by_id(artifacts)
        for artifact in marked:
            artifact.state = mlmd.Artifact.DELETED
        store.put_artifacts(marked)


def skip_executions(database: Path, last: int) -> None:
    """Makes the ids of later executions start above an id."""
    sequence = "UPDATE sqlite_sequence SET seq = ? WHERE name = 'Execution' AND seq < ?"
    with contextlib.closing(sqlite3.connect(database)) as connection, connection:
        connection.execute(sequence, (last, last))


def creation_time(
    item: mlmd.Artifact | mlmd.Execution | mlmd.Context,
) -> datetime.datetime:
    """Returns when an artifact, an execution or a context was created, in UTC."""
    seconds = item.create_time_since_epoch / _MILLISECONDS
    return datetime.datetime.fromtimestamp(seconds, datetime.timezone.utc)


def values(item: mlmd.Artifact | mlmd.Execution) -> dict[str, Any]:
    """Returns the properties of an artifact or an execution by name.

    A property that is missing raises MetadataError.
    """
    pairs = [*item.properties.items(), *item.custom_properties.items()]
    properties = _Properties(f"{item.type} {item.id}")
    for name, value in pairs:
        properties[name] = getattr(value, value.WhichOneof("value"))
    return properties


class _Properties(dict[str, Any]):
    def __init__(self, item: str) -> None:
        self._item = item

    def __missing__(self, name: str) -> Any:
        raise MetadataError(
            self._item,
            f"no property {name} in ML Metadata",
            advice="restore the database from a backup",
            name="E-record-damaged",
        )
