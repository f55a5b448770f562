"""Traces the lineage of a model: a tree of executions from ML Metadata."""

from __future__ import annotations

import dataclasses
import datetime
import json
import logging
from collections.abc import Callable
from pathlib import Path
from typing import Any

from contracts.errors import UsageError
from contracts.verdicts import PUSHED_VERSION
from contracts.versions import served_versions
from pipeline.config import tfx_names
from pipeline.config.parameters import TRAINER_SETTINGS
from pipeline.config.paths import OutputPaths
from pipeline.operations.record import RESTORE, describe_damage
from pipeline.operations.runs import RunList, no_runs
from report.run_metadata import MetadataError, MetadataReader, creation_time, values

logger = logging.getLogger(__name__)


@dataclasses.dataclass(frozen=True)
class Node:
    """An execution, and the executions whose outputs it read.

    Attributes:
      component: The component's id, or `Override`.
      execution: Its id in ML Metadata.
      run: Id of the run that executed it; TFX's id if the run has no record.
      time: When it started.
      facts: Hashes, settings, versions of libraries and files that it depended on.
      outputs: Directories of its artifacts by key.
      inputs: The executions that wrote its inputs.
      is_repeated: Whether an earlier node of the tree describes the execution.
    """

    component: str
    execution: int
    run: str
    time: datetime.datetime
    facts: dict[str, Any]
    outputs: dict[str, str]
    inputs: list[Node]
    is_repeated: bool = False


def trace(paths: OutputPaths, model: str) -> Node:
    """Returns the lineage of a model.

    Args:
      paths: The output directory.
      model: A version that was pushed, its directory, or the directory or the id of a
        Model artifact.

    Raises:
      UsageError: The model is not in ML Metadata, or that cannot be read.
    """
    runs = RunList(paths, requires_metadata=True)
    reader = runs.reader
    if reader is None:
        raise no_runs(paths)
    artifact = _find_artifact(paths, reader, model)
    return _Tracer(reader, runs).trace(reader.producing_execution(artifact))


def _find_artifact(paths: OutputPaths, reader: MetadataReader, model: str) -> Any:
    path = Path(model).absolute()
    is_pushed = path.is_relative_to(paths.serving)
    version = path.name if is_pushed else model
    for artifact in reversed(reader.artifacts(tfx_names.PUSHED_MODEL_TYPE)):
        if values(artifact).get(PUSHED_VERSION) == version:
            return artifact
    for artifact in reader.artifacts(tfx_names.MODEL_TYPE):
        if str(artifact.id) == model or path.is_relative_to(artifact.uri):
            return artifact
    raise UsageError(
        "model",
        f"{model}, but ML Metadata of {paths.root} has no such version, directory or "
        "Model artifact",
        advice="`versions` lists what was pushed",
        name="E-version-unknown",
    )


class _Tracer:
    def __init__(self, reader: MetadataReader, runs: RunList) -> None:
        self._reader = reader
        self._runs = runs
        self._seen: set[int] = set()

    def trace(self, execution: Any) -> Node:
        """Returns the tree of an execution; each execution is described once."""
        component = self._reader.describe(execution).name
        tfx_run_id = self._reader.run_id_of(execution)
        run = self._runs.of_tfx_run(tfx_run_id)
        outputs = self._reader.outputs(execution)
        node = Node(
            component=component,
            execution=execution.id,
            run=tfx_run_id if run is None else run.id,
            time=creation_time(execution),
            facts={},
            outputs={key: artifact.uri for key, artifact in outputs.items()},
            inputs=[],
            is_repeated=execution.id in self._seen,
        )
        if node.is_repeated:
            return node
        self._seen.add(execution.id)
        facts = {}
        try:
            facts = _FACTS.get(component, _other)(values(execution))
            if component == tfx_names.EXAMPLE_GEN:
                facts |= self._data_card(tfx_run_id)
        except MetadataError as error:
            logger.warning("%s", error)
        artifacts = self._reader.inputs(execution)
        producers: dict[int, Any] = {}
        # The model comes first: otherwise a node of its verdicts would describe it.
        for key in sorted(artifacts, key=lambda key: (key != "model", key)):
            producer = self._reader.producing_execution(artifacts[key])
            producers.setdefault(producer.id, producer)
        return dataclasses.replace(
            node,
            facts={k: value for k, value in facts.items() if value not in (None, "")},
            inputs=[self.trace(producer) for producer in producers.values()],
        )

    def _data_card(self, tfx_run_id: str) -> dict[str, Any]:
        """Returns source and fingerprint of the data from the settings of DataGate."""
        for component, gate in self._reader.executions(tfx_run_id):
            if component.name == tfx_names.DATA_GATE:
                properties = values(gate)
                card = json.loads(properties.get("card") or properties["settings"])
                card = card.get("card", card)  # release 1.0.0: among the settings
                return {"data": card["source"], "data sha256": card["fingerprint"]}
        return {}


def _pushed(properties: dict[str, Any]) -> dict[str, Any]:
    destination = json.loads(properties["push_destination"])
    directory = destination["filesystem"]["base_directory"]
    version = properties.get("version", "")
    return {"version": version, **_manifest(Path(directory), version)}


def _overridden(properties: dict[str, Any]) -> dict[str, Any]:
    directory, version = properties["directory"], properties["version"]
    return {**_other(properties), **_manifest(Path(directory), version)}


def _manifest(directory: Path, version: str) -> dict[str, Any]:
    """Returns the hashes of the files that were pushed, if the version exists."""
    for path in (directory / version, directory / served_versions.WITHDRAWN / version):
        try:
            manifest = served_versions.read_manifest(str(path))
            if manifest:
                return {
                    f"{Path(name).name} sha256": file["sha256"]
                    for name, file in sorted(manifest.items())
                    if name.startswith(("saved_model", "variables/variables.data"))
                }
        except (OSError, ValueError, AttributeError, LookupError, TypeError) as error:
            advice = f"{RESTORE}; its hashes are unknown"
            manifest_file = path / served_versions.MANIFEST_FILE
            logger.warning("%s", describe_damage(manifest_file, error, advice))
    return {}


def _trainer(properties: dict[str, Any]) -> dict[str, Any]:
    config = json.loads(properties["custom_config"])
    return {
        "encoder": config.get("encoder"),
        "encoder sha256": config.get("encoder_fingerprint"),
        **_code(config),
        "serving precision": config.get("serving_precision"),
    }


def _transform(properties: dict[str, Any]) -> dict[str, Any]:
    config = json.loads(properties["custom_config"])
    return {
        "vocabulary sha256": config.get("vocab_fingerprint"),
        **_code(config),
        # Release 1.0.0 wrote its settings instead of `packing`.
        **config.get(
            "packing",
            {
                name: config[name]
                for name in ("max_seq_length", "keep", "long_text")
                if name in config
            },
        ),
    }


def _code(config: dict[str, Any]) -> dict[str, Any]:
    return {
        "code sha256": config.get("code_fingerprint"),
        "libraries": config.get("libraries"),
    }


def _hyperparameters(properties: dict[str, Any]) -> dict[str, Any]:
    settings = json.loads(properties["settings"])
    for name in TRAINER_SETTINGS:
        settings[name] = properties.get(name)
    return {"settings": settings}


def _example_gen(properties: dict[str, Any]) -> dict[str, Any]:
    # TFX's span is 0 for a source without spans.
    return {
        "examples": properties.get("input_base"),
        "span": properties.get("span") or None,
    }


def _model_checks(properties: dict[str, Any]) -> dict[str, Any]:
    checks = json.loads(properties["checks"])["sections"]
    return {"checks": ", ".join(checks), **_other(properties)}


def _other(properties: dict[str, Any]) -> dict[str, Any]:
    names = {
        "version": "version",
        "schema_file": "schema",
        "fingerprint": "code sha256",
        "thresholds": "thresholds",
        "max_regression": "max. drop",
        "significance": "significance",
        "by": "by",
        "reason": "reason",
    }
    return {name: properties.get(key) for key, name in names.items()}


_FACTS: dict[str, Callable[[dict[str, Any]], dict[str, Any]]] = {
    tfx_names.PUSHER: _pushed,
    tfx_names.OVERRIDE: _overridden,
    tfx_names.TRAINER: _trainer,
    tfx_names.TRANSFORM: _transform,
    tfx_names.HYPERPARAMETERS: _hyperparameters,
    tfx_names.EXAMPLE_GEN: _example_gen,
    tfx_names.MODEL_CHECKS: _model_checks,
}
