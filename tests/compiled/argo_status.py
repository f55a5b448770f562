"""The size of a run's state in Kubeflow's workflow controller, by its source.

Argo holds the state of all nodes of a run in one object of at most 1 MiB. Above that it
compresses it, and the API of Kubeflow Pipelines no longer names the tasks. From 2.17.0
a task has six nodes: driver, DAG and executor, each once more as the node of its
retries. Driver nodes have the specs of component, task and container as parameters, and
all have the patch of the pod. It has the ExecutorInput, the component spec and the
command (kubeflow/pipelines, `backend/src/v2/compiler/argocompiler/container.go`).

Measured: a run of the 14 recorded components has 90 nodes and 940 kB.
"""

import json
from typing import Any

RECORDED_BYTES = 940_000
RECORDED_TASKS = 14
LIMIT_BYTES = 2**20  # of the whole workflow: its spec and its state
# Names, times and references of a node.
_NODE = 1000
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


def recorded_task(recording: dict[str, Any]) -> dict[str, Any]:
    """Returns a task spec with the values of a recording, which contains no spec."""
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
