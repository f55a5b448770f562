"""The size of a run's workflow in Kubeflow's workflow controller, by its source.

Argo holds the spec of a run and the state of all its nodes in one object of at most
1 MiB. Above that it compresses the state, and the API of Kubeflow Pipelines no longer
names the tasks. The spec has the compiled specs of the root, each component, its
container and its task as text. From 2.17.0 a task has six nodes: driver, DAG and
executor, each once more as the node of its retries. Driver nodes have the specs of
component, task and container as parameters, and all have the patch of the pod. It has
the ExecutorInput, the component spec and the command (kubeflow/pipelines,
`backend/src/v2/compiler/argocompiler`: `argo.go`, `dag.go`, `container.go`).

Measured in bytes, with jobs of 2026-11-25 and 2026-11-28, and calculated for the same
jobs:

    components             nodes    state of nodes     spec   workflow
    14                        90           940,000  124,000
    15                        96           553,135   63,860    618,365
    calculated                             554,942   63,857    620,169
    16, with the Tuner       102           610,694   68,163    680,261
    calculated                                       68,166

The tests calculate the first, of which there are recordings.
"""

import json
from typing import Any

from tests.compiled.spec import container_of

RECORDED_BYTES = 940_000
RECORDED_SPEC_BYTES = 124_000
RECORDED_TASKS = 14
LIMIT_BYTES = 2**20
# Its metadata, and its state without the nodes.
WORKFLOW_BYTES = 1370
MEASURED_SPEC_BYTES = 63_860
MEASURED_TUNER_BYTES = 680_261 - 618_365
# Names, times and references of a node.
_NODE = 1000
# What the tasks of a component add to the spec: names, references and hashes.
_TASK_TEMPLATES = 1308
# The templates that all components share.
_TEMPLATES = 9333
_NODES_OF_A_TASK, _NODES_OF_A_RUN = 6, 6
_IMAGE = "registry.example/bert-pipeline:1.0.0"


def task_size(
    component: dict[str, Any],
    task: dict[str, Any],
    command: list[str],
    message: dict[str, Any],
) -> int:
    """Returns the bytes of a task's nodes."""
    container = {"image": _IMAGE, "command": command[:3], "args": command[3:]}
    parameters = [_json(each) for each in (component, task, container)]
    launcher = [
        *("/kfp-launcher/launch", "--pipeline_name", "sample", "--run_id", "0" * 36),
        *("--execution_id", "100", "--executor_type", "container"),
        *("--executor_input", _json(message), "--component_spec", parameters[0]),
        *("--pod_name", "$(KFP_POD_NAME)", "--pod_uid", "$(KFP_POD_UID)"),
        *("--mlmd_server_address", "metadata-grpc-service.kubeflow.svc.cluster.local"),
        *("--mlmd_server_port", "8080", "--publish_logs", "true"),
        *("--ml_pipeline_server_address", "ml-pipeline.kubeflow.svc.cluster.local"),
        *("--ml_pipeline_server_port", "8887", "--log_level", "1"),
        *("--ca_cert_path", "", "--cache_disabled", "false"),
        *("--ml_pipeline_tls_enabled", "false", "--metadata_tls_enabled", "false"),
    ]
    patch = {
        "containers": [
            {
                "name": "main",
                "image": _IMAGE,
                "command": launcher,
                "args": ["--", *command],
                "resources": {},
            }
        ]
    }
    driver = sum(len(_json(each)) for each in parameters)
    return (
        2 * driver
        + _NODES_OF_A_TASK * len(_json(_json(patch)))
        + _NODES_OF_A_TASK * _NODE
    )


def run_size(tasks: dict[str, dict[str, Any]]) -> int:
    """Returns the bytes of the nodes of the run itself, which have the root's spec."""
    root = _json(_json({"dag": {"tasks": tasks}}))
    return 2 * len(root) + _NODES_OF_A_RUN * _NODE


def spec_size(spec: dict[str, Any]) -> int:
    """Returns the bytes of a workflow's spec, which has each compiled spec as text."""
    tasks = spec["root"]["dag"]["tasks"].values()
    components = [spec["components"][task["componentRef"]["name"]] for task in tasks]
    containers = [container_of(spec, component) for component in components]
    contents = (spec["root"], *tasks, *components, *containers)
    size = sum(len(_json(_json(content))) for content in contents)
    return size + _TASK_TEMPLATES * len(tasks) + _TEMPLATES


def recorded_spec(recordings: list[dict[str, Any]]) -> dict[str, Any]:
    """Returns the spec of the recorded job, as far as recordings have its content."""
    components, executors = {}, {}
    for each in recordings:
        name, command = each["task"], each["command"]
        components[name] = {**each["component_spec"], "executorLabel": name}
        container = {"image": _IMAGE, "command": command[:3], "args": command[3:]}
        executors[name] = {"container": container}
    tasks = {each["task"]: _recorded_task(each) for each in recordings}
    return {
        "root": {"dag": {"tasks": tasks}},
        "components": components,
        "deploymentSpec": {"executors": executors},
    }


def _recorded_task(recording: dict[str, Any]) -> dict[str, Any]:
    inputs = recording["executor_input"]["inputs"]
    return {
        "taskInfo": {"name": recording["task"]},
        "componentRef": {"name": recording["task"]},
        "dependentTasks": list(inputs.get("artifacts", {})),
        "cachingOptions": {"enableCache": True},
        "inputs": {
            "parameters": {
                name: {"runtimeValue": {"constant": value}}
                for name, value in inputs.get("parameterValues", {}).items()
            },
            "artifacts": {
                name: {
                    "taskOutputArtifact": {
                        "producerTask": recording["task"],
                        "outputArtifactKey": name,
                    }
                }
                for name in inputs.get("artifacts", {})
            },
        },
        "retryPolicy": {
            "maxRetryCount": 2,
            "backoffDuration": "30s",
            "backoffFactor": 2.0,
            "backoffMaxDuration": "600s",
        },
    }


def _json(content: Any) -> str:
    return json.dumps(content, separators=(",", ":"))
