"""Finds what is compared of a run: its settings, predictions and examples."""

from __future__ import annotations

import dataclasses
import datetime
import re
from pathlib import Path
from typing import Any

import yaml
from ml_metadata import MetadataStore
from ml_metadata.proto import metadata_store_pb2 as mlmd

from modules.config.task import TaskConfig
from pipeline.config import recipe
from pipeline.config.errors import UsageError
from pipeline.config.paths import OutputPaths

LATEST = "latest"
_CONFIG_FILE = "config.yaml"
_METADATA_FILE = "metadata.sqlite"
_RECORD = re.compile(r"\d{8}-\d{6}-\d{6}")
_RECORD_TIME = "%Y%m%d-%H%M%S-%f"  # the name of a run's record
_RUN_TYPE = "pipeline_run"


@dataclasses.dataclass(frozen=True)
class FinishedRun:
    """A run whose training finished.

    Attributes:
      name: The name of its record below `runs/`.
      settings: Its recipe with every setting.
      task: The task of the recipe.
      split: The split that decided.
      model_run: The Trainer's records, with the predictions.
      examples: The Examples artifact.
    """

    name: str
    settings: dict[str, Any]
    task: TaskConfig
    split: str
    model_run: str
    examples: str


def find_run(paths: OutputPaths, name: str) -> FinishedRun:
    """Finds a run by what a user calls it.

    Args:
      paths: The output directory of ids.
      name: `latest`, the id of a run, the directory of its record, or that of a version
        that a run pushed.

    Raises:
      UsageError: There is no such run, or it did not train a model.
    """
    if Path(name, "saved_model.pb").is_file():
        return _find_pushing_run(Path(name).resolve())
    record = _find_record(paths, name)
    root = record.parent.parent
    database = _Database(root / _METADATA_FILE)
    run_id = database.run_started_between(_started(record), _next_start(record))
    if run_id is None:
        raise UsageError(f"run {record} ended before its first component; see run.log")
    return _describe(record, database.outputs(run_id))


def _find_record(paths: OutputPaths, name: str) -> Path:
    records = _records(paths.root / "runs")
    if name == LATEST:
        if not records:
            raise UsageError(
                f"output {paths.root} has no runs; name another directory with "
                "--output DIR"
            )
        return records[-1]
    for record in (Path(name), paths.run(name)):
        if (record / _CONFIG_FILE).is_file() and _RECORD.fullmatch(
            record.resolve().name
        ):
            return record.resolve()
    known = ", ".join(record.name for record in records[-5:]) or "none"
    raise UsageError(
        f"{name!r} is no run of {paths.root}, no directory of a run's record and none "
        f"of a pushed version; the last runs there: {known}. Name another output "
        "directory with --output DIR"
    )


def _records(directory: Path) -> list[Path]:
    paths = directory.glob("*") if directory.is_dir() else ()
    return sorted(path for path in paths if _RECORD.fullmatch(path.name))


def _started(record: Path) -> datetime.datetime:
    return datetime.datetime.strptime(record.name, _RECORD_TIME)


def _next_start(record: Path) -> datetime.datetime:
    later = [path for path in _records(record.parent) if path.name > record.name]
    return _started(later[0]) if later else datetime.datetime.max


def _find_pushing_run(version: Path) -> FinishedRun:
    for root in version.parents:
        if (root / _METADATA_FILE).is_file():
            break
    else:
        raise UsageError(
            f"{version} is not below an output directory: there is no {_METADATA_FILE} "
            "above it, which knows the run that pushed it"
        )
    database = _Database(root / _METADATA_FILE)
    run_id = database.run_that_pushed(version)
    if run_id is None:
        raise UsageError(f"no run in {root} pushed {version}")
    started = datetime.datetime.fromisoformat(run_id)
    records = [path for path in _records(root / "runs") if _started(path) <= started]
    if not records:
        raise UsageError(f"the record of the run that pushed {version} was deleted")
    return _describe(records[-1], database.outputs(run_id))


def _describe(record: Path, outputs: dict[tuple[str, str], str]) -> FinishedRun:
    try:
        model_run = outputs["Trainer", "model_run"]
        examples = outputs["ImportExampleGen", "examples"]
    except KeyError as error:
        raise UsageError(
            f"run {record} has no predictions: its Trainer did not finish; see run.log"
        ) from error
    settings = _read_settings(record / _CONFIG_FILE)
    return FinishedRun(
        name=record.name,
        settings=settings,
        task=TaskConfig.model_validate(settings["task"]),
        split=settings["evaluator"]["split"],
        model_run=model_run,
        examples=examples,
    )


def _read_settings(path: Path) -> dict[str, Any]:
    try:
        # With today's defaults of settings that the run's release did not have.
        return recipe.load_config(path).model_dump(mode="json")
    except UsageError:
        return yaml.safe_load(path.read_text(encoding="utf-8"))


class _Database:
    """What ML Metadata knows of the runs of an output directory."""

    def __init__(self, path: Path) -> None:
        if not path.is_file():
            raise UsageError(f"there is no {path}, which knows what each run wrote")
        connection = mlmd.ConnectionConfig()
        connection.sqlite.filename_uri = str(path)
        connection.sqlite.connection_mode = mlmd.SqliteMetadataSourceConfig.READONLY
        self._store = MetadataStore(connection)

    def run_started_between(
        self, first: datetime.datetime, last: datetime.datetime
    ) -> str | None:
        """Returns TFX's id of a run, which is the time of its start."""
        runs = sorted(run.name for run in self._store.get_contexts_by_type(_RUN_TYPE))
        for name in runs:
            if first <= datetime.datetime.fromisoformat(name) < last:
                return name
        return None

    def run_that_pushed(self, version: Path) -> str | None:
        """Returns TFX's id of the run that pushed a version first."""
        for artifact in self._store.get_artifacts_by_type("PushedModel"):
            pushed = artifact.custom_properties["pushed_destination"].string_value
            if not pushed or Path(pushed).resolve() != version:
                continue
            events = self._store.get_events_by_artifact_ids([artifact.id])
            execution = min(
                event.execution_id
                for event in events
                if event.type == mlmd.Event.OUTPUT
            )
            for context in self._store.get_contexts_by_execution(execution):
                if context.type == _RUN_TYPE:
                    return context.name
        return None

    def outputs(self, run_id: str) -> dict[tuple[str, str], str]:
        """Returns the URI of each output, by component and key."""
        run = self._store.get_context_by_type_and_name(_RUN_TYPE, run_id)
        uris: dict[tuple[str, str], str] = {}
        for execution in self._store.get_executions_by_context(run.id):
            node = self._node(execution.id)
            events = self._store.get_events_by_execution_ids([execution.id])
            keys = {
                event.artifact_id: event.path.steps[0].key
                for event in events
                if event.type == mlmd.Event.OUTPUT
            }
            for artifact in self._store.get_artifacts_by_id(list(keys)):
                if artifact.state == mlmd.Artifact.LIVE:
                    uris[node, keys[artifact.id]] = artifact.uri
        return uris

    def _node(self, execution_id: int) -> str:
        (node,) = (
            context
            for context in self._store.get_contexts_by_execution(execution_id)
            if context.type == "node"
        )
        return node.name.rpartition(".")[2]
