"""Checks of a compiled pipeline and its parameters, as by the backends."""

import re
import tempfile
from pathlib import Path
from typing import Any

import yaml
from google.protobuf import json_format
from kfp import components
from kfp.client import client
from kfp.pipeline_spec import pipeline_spec_pb2

SCHEMA_VERSION = "2.1.0"

# The names that Argo allows; KFP gives its tasks the names of the pipeline's tasks.
_TASK_NAME = re.compile(r"[a-zA-Z0-9][-a-zA-Z0-9]*")
_KINDS = {
    "STRING": str,
    "NUMBER_INTEGER": (int, float),
    "NUMBER_DOUBLE": (int, float),
    "BOOLEAN": bool,
    "LIST": list,
    "STRUCT": dict,
}


class SpecRefusedError(ValueError):
    """A compiled pipeline, or its parameters, that the backend refuses."""


def check_spec(spec: dict[str, Any], platforms: dict[str, Any] | None = None) -> None:
    """Checks a compiled pipeline against the protos and KFP's client."""
    json_format.ParseDict(spec, pipeline_spec_pb2.PipelineSpec())
    json_format.ParseDict(
        spec["deploymentSpec"], pipeline_spec_pb2.PipelineDeploymentConfig()
    )
    if spec.get("schemaVersion") != SCHEMA_VERSION:
        raise SpecRefusedError(
            f"schemaVersion: {spec.get('schemaVersion')!r}, but KFP accepts only "
            f"{SCHEMA_VERSION!r}; compile with use_pipeline_spec_2_1=True"
        )
    documents = [spec] if platforms is None else [spec, platforms]
    text = yaml.safe_dump_all(documents)
    components.load_component_from_text(text)
    with tempfile.TemporaryDirectory() as directory:
        path = Path(directory) / "pipeline.yaml"
        path.write_text(text)
        # `kfp.Client` reads a package this way; its public methods send requests.
        client._extract_pipeline_yaml(str(path))


def container_of(spec: dict[str, Any], component: dict[str, Any]) -> dict[str, Any]:
    """Returns the container that runs a component."""
    label = component["executorLabel"]
    container: dict[str, Any] = spec["deploymentSpec"]["executors"][label]["container"]
    return container


def refuse_unsupported(spec: dict[str, Any]) -> None:
    """Refuses what the backends, or this stand-in for them, do not support."""
    tasks = spec["root"]["dag"]["tasks"]
    for name, task in tasks.items():
        component = spec["components"][task["componentRef"]["name"]]
        if "dag" in component:
            raise SpecRefusedError(f"task {name}: a DAG in a DAG is not simulated here")
        executor = spec["deploymentSpec"]["executors"][component["executorLabel"]]
        if "container" not in executor:
            (kind,) = executor
            raise SpecRefusedError(f"task {name}: {kind} not implemented")
        if not _TASK_NAME.fullmatch(name):
            raise SpecRefusedError(
                f"task {name}: Argo allows names of letters, digits and '-' only"
            )
        for other in task.get("dependentTasks", []):
            if other not in tasks:
                raise SpecRefusedError(
                    f"task {name} depends on {other}, which does not exist"
                )


def root_parameters(spec: dict[str, Any], values: dict[str, Any]) -> dict[str, Any]:
    """Returns the values of a pipeline's runtime parameters."""
    declared = spec["root"].get("inputDefinitions", {}).get("parameters", {})
    for name in values:
        if name not in declared:
            raise SpecRefusedError(
                f"parameter {name}: the pipeline has only {sorted(declared)}"
            )
    checked = {}
    for name, parameter in declared.items():
        if name not in values and "defaultValue" not in parameter:
            if parameter.get("isOptional"):
                continue
            raise SpecRefusedError(
                f"parameter {name} has neither a value nor a default value"
            )
        checked[name] = check_type(
            name, parameter, values.get(name, parameter.get("defaultValue"))
        )
    return checked


def check_type(name: str, parameter: dict[str, Any], value: Any) -> Any:
    """Returns a value of the parameter's type, a number as a float."""
    kind = _KINDS[parameter["parameterType"]]
    is_bool = isinstance(value, bool)
    if not isinstance(value, kind) or (is_bool and kind is not bool):
        raise SpecRefusedError(
            f"parameter {name}: {value!r} is not of type {parameter['parameterType']}"
        )
    return float(value) if isinstance(value, int) and not is_bool else value
