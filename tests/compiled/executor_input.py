"""The ExecutorInput of a container, its command line and its ExecutorOutput."""

import hashlib
import json
import re
from pathlib import Path
from typing import Any

from google.protobuf import json_format
from kfp.pipeline_spec import pipeline_spec_pb2

from tests.compiled import spec as specs
from tests.compiled.backends import Artifact, Kubeflow, Vertex

_ALL = "{{$}}"
_PLACEHOLDER = re.compile(
    r"\{\{\$\.(?P<side>inputs|outputs)\.(?P<kind>artifacts|parameters)"
    r"\['(?P<name>[^']+)'\](?:\.(?P<field>\w+))?\}\}"
)


class UnresolvedError(ValueError):
    """An input or a placeholder that a backend would not resolve."""


def inputs(
    task: dict[str, Any],
    component: dict[str, Any],
    root: dict[str, Any],
    done: dict[str, Any],
    backend: Kubeflow | Vertex,
) -> dict[str, Any]:
    """Returns the inputs of a task."""
    declared = component.get("inputDefinitions", {}).get("parameters", {})
    parameters = {}
    for name, source in task.get("inputs", {}).get("parameters", {}).items():
        value = _parameter(name, source, root, done)
        if declared[name]["parameterType"] == "STRING" and not isinstance(value, str):
            value = as_text(value)
        parameters[name] = specs.check_type(name, declared[name], value)
    for name, parameter in declared.items():
        if name not in parameters and not parameter.get("isOptional"):
            if "defaultValue" not in parameter:
                raise UnresolvedError(f"parameter {name}: neither value nor default")
            parameters[name] = parameter["defaultValue"]
    artifacts = {}
    for name, source in task.get("inputs", {}).get("artifacts", {}).items():
        output = source["taskOutputArtifact"]
        artifact = _produced(name, done, output["producerTask"]).artifacts.get(
            output["outputArtifactKey"]
        )
        if artifact is None:
            raise UnresolvedError(f"artifact {name}: {output} does not exist")
        artifacts[name] = {"artifacts": [as_input(artifact, backend)]}
    return backend.inputs(parameters, artifacts)


def as_input(artifact: Artifact, backend: Kubeflow | Vertex) -> dict[str, Any]:
    """Returns an artifact as an input of the next task."""
    return {
        "name": backend.name(artifact),
        "type": backend.type(artifact),
        "uri": artifact.uri,
        "metadata": artifact.metadata,
    }


def _parameter(
    name: str, source: dict[str, Any], root: dict[str, Any], done: dict[str, Any]
) -> Any:
    match source:
        case {"runtimeValue": {"constant": value}}:
            return value
        case {"componentInputParameter": parameter} if parameter in root:
            return root[parameter]
        case {"taskOutputParameter": output}:
            produced = _produced(name, done, output["producerTask"]).parameters
            if output["outputParameterKey"] in produced:
                return produced[output["outputParameterKey"]]
    raise UnresolvedError(f"parameter {name}: {source} does not exist")


def _produced(name: str, done: dict[str, Any], task: str) -> Any:
    if task not in done:
        raise UnresolvedError(
            f"input {name}: its producer task {task!r} has not run before; those that "
            f"have are {sorted(done)}"
        )
    return done[task]


def fingerprint(
    pipeline: str,
    container: dict[str, Any],
    component: dict[str, Any],
    message: dict[str, Any],
) -> str:
    """Returns a task's cache key, as `cacheutils.GenerateCacheKey` of the backend."""
    key = {
        "pipelineName": pipeline,
        "inputArtifactNames": {
            name: [artifact["name"] for artifact in value["artifacts"]]
            for name, value in message["inputs"].get("artifacts", {}).items()
        },
        "inputParameterValues": message["inputs"].get("parameterValues", {}),
        "outputArtifactsSpec": {
            name: {k: v for k, v in value["artifacts"][0].items() if k != "uri"}
            for name, value in message["outputs"]["artifacts"].items()
        },
        "outputParametersSpec": {
            name: value["parameterType"]
            for name, value in component.get("outputDefinitions", {})
            .get("parameters", {})
            .items()
        },
        "containerSpec": {
            "image": container["image"],
            "cmdArgs": container.get("command", []) + container.get("args", []),
        },
    }
    return hashlib.sha256(json.dumps(key, sort_keys=True).encode()).hexdigest()


def command_line(template: list[str], message: dict[str, Any]) -> list[str]:
    """Returns a command with its placeholders filled."""
    proto = json_format.ParseDict(message, pipeline_spec_pb2.ExecutorInput())
    text = json_format.MessageToJson(proto, indent=None)
    if "{{$" in text:
        raise UnresolvedError(
            f"an input has a placeholder: {text}; launchers before 2.14 fill "
            "placeholders in random order"
        )
    filled = []
    for argument in template:
        argument = _PLACEHOLDER.sub(
            lambda placeholder: _fill(placeholder, message), argument
        )
        if "{{$." in argument:
            raise UnresolvedError(f"no such placeholder: {argument}")
        filled.append(argument.replace(_ALL, text))
    return filled


def _fill(placeholder: re.Match[str], message: dict[str, Any]) -> str:
    side, kind, name, field = placeholder.group("side", "kind", "name", "field")
    match side, kind, field:
        case "inputs", "parameters", None:
            if name in message["inputs"].get("parameterValues", {}):
                return as_text(message["inputs"]["parameterValues"][name])
        case _, "artifacts", "uri":
            if name in message[side]["artifacts"]:
                return str(message[side]["artifacts"][name]["artifacts"][0]["uri"])
        case "outputs", "parameters", "output_file":
            if name in message["outputs"].get("parameters", {}):
                return str(message["outputs"]["parameters"][name]["outputFile"])
    raise UnresolvedError(f"no such placeholder: {placeholder.group()}")


def as_text(value: Any) -> str:
    """Returns a parameter as the launcher writes it into a command."""
    if isinstance(value, str):
        return value
    if isinstance(value, float) and value.is_integer():
        return str(int(value))
    return json.dumps(value)


def read_output(path: Path) -> dict[str, Any]:
    """Reads an ExecutorOutput; it is empty if the container wrote none."""
    proto = pipeline_spec_pb2.ExecutorOutput()
    if path.exists():
        json_format.Parse(path.read_text(), proto)
    reported: dict[str, Any] = json_format.MessageToDict(proto)
    return reported


def merge_artifacts(reported: dict[str, Any], message: dict[str, Any]) -> None:
    """Updates the outputs of an ExecutorInput from an ExecutorOutput."""
    for key, value in message["outputs"]["artifacts"].items():
        for new in reported.get("artifacts", {}).get(key, {}).get("artifacts", [])[:1]:
            artifact = value["artifacts"][0]
            artifact["uri"] = new.get("uri") or artifact["uri"]
            artifact["metadata"] = {
                **artifact.get("metadata", {}),
                **new.get("metadata", {}),
            }
