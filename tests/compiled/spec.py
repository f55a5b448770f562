"""What a compiled pipeline must be before a backend takes it."""

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

# Of an Argo workflow's tasks, which KFP names as the pipeline's are.
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
    """A compiled pipeline, or its parameters, that the backend does not take."""


def check_spec(spec: dict[str, Any], platforms: dict[str, Any] | None = None) -> None:
    """Checks that a compiled pipeline is one, and that KFP's client reads it.

    Args:
      spec: The pipeline spec, first document of the YAML file.
      platforms: The second document, None where there is none.

    Raises:
      SpecRefusedError: It is of another schema version.
      google.protobuf.json_format.ParseError: It has a field that the pipeline spec or
        its deployment config has not.
      ValueError: KFP's client does not take it.
    """
    json_format.ParseDict(spec, pipeline_spec_pb2.PipelineSpec())
    json_format.ParseDict(
        spec["deploymentSpec"], pipeline_spec_pb2.PipelineDeploymentConfig()
    )
    if spec.get("schemaVersion") != SCHEMA_VERSION:
        raise SpecRefusedError(
            f"schemaVersion: {spec.get('schemaVersion')!r} where KFP takes only "
            f"{SCHEMA_VERSION!r}; compile with use_pipeline_spec_2_1=True"
        )
    documents = [spec] if platforms is None else [spec, platforms]
    text = yaml.safe_dump_all(documents)
    components.load_component_from_text(text)
    with tempfile.TemporaryDirectory() as directory:
        path = Path(directory) / "pipeline.yaml"
        path.write_text(text)
        # What `kfp.Client` does with a package; its public methods ask a server.
        client._extract_pipeline_yaml(str(path))


def container_of(spec: dict[str, Any], component: dict[str, Any]) -> dict[str, Any]:
    """Returns the container that runs a component.

    Args:
      spec: The pipeline spec.
      component: One of its components.
    """
    label = component["executorLabel"]
    container: dict[str, Any] = spec["deploymentSpec"]["executors"][label]["container"]
    return container


def refuse_unsupported(spec: dict[str, Any]) -> None:
    """Refuses what the backends, or this stand-in for them, do not run.

    Args:
      spec: The pipeline spec.

    Raises:
      SpecRefusedError: It has it.
    """
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
                f"task {name}: Argo takes names of letters, digits and '-' only"
            )
        for other in task.get("dependentTasks", []):
            if other not in tasks:
                raise SpecRefusedError(f"task {name} depends on {other}, which is none")


def root_parameters(spec: dict[str, Any], given: dict[str, Any]) -> dict[str, Any]:
    """Returns the values of a pipeline's runtime parameters.

    Args:
      spec: The pipeline spec.
      given: What the caller sets.

    Raises:
      SpecRefusedError: One is missing, unknown or of another type.
    """
    declared = spec["root"].get("inputDefinitions", {}).get("parameters", {})
    for name in given:
        if name not in declared:
            raise SpecRefusedError(
                f"parameter {name}: the pipeline has only {sorted(declared)}"
            )
    values = {}
    for name, parameter in declared.items():
        if name not in given and "defaultValue" not in parameter:
            if parameter.get("isOptional"):
                continue
            raise SpecRefusedError(
                f"parameter {name} has neither a default value nor a given one"
            )
        values[name] = check_type(
            name, parameter, given.get(name, parameter.get("defaultValue"))
        )
    return values


def check_type(name: str, parameter: dict[str, Any], value: Any) -> Any:
    """Returns a value that is of its parameter's type, a number as a double.

    Args:
      name: The parameter's name.
      parameter: What declares it.
      value: Its value.

    Raises:
      SpecRefusedError: The value is of another type.
    """
    kind = _KINDS[parameter["parameterType"]]
    is_bool = isinstance(value, bool)
    if not isinstance(value, kind) or (is_bool and kind is not bool):
        raise SpecRefusedError(
            f"parameter {name}: {value!r} is not of type {parameter['parameterType']}"
        )
    return float(value) if isinstance(value, int) and not is_bool else value
