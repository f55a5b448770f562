"""The differences between the two backends in what a container receives.

Kubeflow is the open-source backend as `recordings/` has it (see README.md there). No
recording supports Vertex: it follows what TFX's entry point expects, and its
`container/testdata`.
"""

import dataclasses
import uuid
from collections.abc import Mapping
from pathlib import Path
from typing import Any

# What Kubeflow's driver adds to the outputs of each component.
LOGS_KEY = "executor-logs"
LOGS_TYPE = {"schemaTitle": "system.Artifact"}
_SESSION = '{"Provider":"gs","Params":{"fromEnv":"true"}}'

PROJECT_NUMBER = "123456789012"
LOCATION = "us-central1"


@dataclasses.dataclass(frozen=True)
class Artifact:
    """An artifact in the backend's metadata store.

    Attributes:
      number: Its ID.
      uri: Its location.
      schema: Its declared type in YAML.
      metadata: Its properties.
    """

    number: int
    uri: str
    schema: str
    metadata: dict[str, Any]


class Kubeflow:
    """The open-source backend, with its logs published."""

    # It ignores `lifecycle`.
    PRE_CACHE_CHECK = False
    # Its workflow controller repeats an attempt that ended with an error of the
    # cluster, such as a lost pod, not one whose command failed.
    RETRIES_FAILURES = False

    def new_run(self, pipeline: str) -> str:
        """Returns the id of a new run."""
        del pipeline
        return str(uuid.uuid4())

    def task_directory(self, root: str, pipeline: str, run: str, task: str) -> str:
        """Returns a new directory for a task's outputs, shared by all attempts."""
        return f"{root}/{pipeline}/{run}/{task}/{uuid.uuid4()}"

    def inputs(
        self, parameters: dict[str, Any], artifacts: dict[str, Any]
    ) -> dict[str, Any]:
        """Returns the inputs of an ExecutorInput, which have no empty maps."""
        inputs = {"parameterValues": parameters, "artifacts": artifacts}
        return {key: value for key, value in inputs.items() if value}

    def outputs(self, component: dict[str, Any], directory: str) -> dict[str, Any]:
        """Returns the outputs of an ExecutorInput."""
        declared = component.get("outputDefinitions", {}).get("artifacts", {})
        declared = {**declared, LOGS_KEY: {"artifactType": LOGS_TYPE}}
        return {
            "artifacts": {
                key: {
                    "artifacts": [
                        {
                            "name": key,
                            "type": artifact["artifactType"],
                            "uri": f"{directory}/{key}",
                        }
                    ]
                }
                for key, artifact in declared.items()
            },
            "outputFile": f"{local_path(directory)}/output_metadata.json",
        }

    def name(self, artifact: Artifact) -> str:
        """Returns an input's name."""
        return str(artifact.number)

    def type(self, artifact: Artifact) -> dict[str, str]:
        """Returns an input's type, which is empty.

        TFX's entry point cannot read that, see tensorflow/tfx#7768.
        """
        del artifact
        return {"instanceSchema": ""}

    def keep(self, key: str, metadata: Mapping[str, Any]) -> dict[str, Any]:
        """Returns an output's metadata as the store returns it later."""
        kept = {"display_name": key, "store_session_info": _SESSION}
        for name, value in metadata.items():
            match value:
                case None:
                    raise ValueError(f"output {key}: metadata {name} is null")
                case bool():
                    kept[name] = int(value)
                case list():
                    kept[name] = {"list": value}
                case dict():
                    kept[name] = {"struct": value}
                case _:
                    kept[name] = value
        return kept

    def environment(self, run: str, task: Mapping[str, Any]) -> dict[str, str]:
        """Returns what Kubernetes and the backend add to a container's environment."""
        retry = "retry-" if "retryPolicy" in task else ""
        return {
            "KFP_POD_NAME": f"run-{run[:5]}-{retry}system-container-impl-1",
            "KFP_POD_UID": str(uuid.uuid4()),
            **({"KFP_RETRY_INDEX": "0"} if retry else {}),
            "KUBERNETES_SERVICE_HOST": "10.96.0.1",
            "KUBERNETES_SERVICE_PORT": "443",
            "KUBERNETES_SERVICE_PORT_HTTPS": "443",
        }


def local_path(uri: str) -> str:
    """Returns the path in a pod that Kubeflow's launcher copies an object to."""
    return f"/gcs/{uri.removeprefix('gs://')}"


class Vertex:
    """Vertex AI Pipelines; `Kubeflow` describes the methods."""

    PRE_CACHE_CHECK = True
    RETRIES_FAILURES = True

    def new_run(self, pipeline: str) -> str:
        return f"{pipeline}-{uuid.uuid4().hex[:14]}"

    def task_directory(self, root: str, pipeline: str, run: str, task: str) -> str:
        del pipeline
        return f"{root}/{PROJECT_NUMBER}/{run}/{task}_{uuid.uuid4().int >> 65}"

    def inputs(
        self, parameters: dict[str, Any], artifacts: dict[str, Any]
    ) -> dict[str, Any]:
        return {"parameterValues": parameters, "artifacts": artifacts}

    def outputs(self, component: dict[str, Any], directory: str) -> dict[str, Any]:
        declared = component.get("outputDefinitions", {})
        artifacts = {}
        for key, artifact in declared.get("artifacts", {}).items():
            Path(directory, key).mkdir(parents=True)
            artifacts[key] = {
                "artifacts": [
                    {
                        "uri": f"{directory}/{key}",
                        "type": artifact["artifactType"],
                        "metadata": artifact.get("metadata", {}),
                    }
                ]
            }
        parameters = {}
        for key in declared.get("parameters", {}):
            path = Path(directory, ".parameters", key)
            path.parent.mkdir(parents=True, exist_ok=True)
            parameters[key] = {"outputFile": str(path)}
        Path(directory).mkdir(parents=True, exist_ok=True)
        return {
            "artifacts": artifacts,
            "parameters": parameters,
            # Of the driver and the container.
            "outputFile": f"{directory}/executor_output.json",
        }

    def name(self, artifact: Artifact) -> str:
        store = f"projects/{PROJECT_NUMBER}/locations/{LOCATION}/metadataStores/default"
        return f"{store}/artifacts/{artifact.number}"

    def type(self, artifact: Artifact) -> dict[str, str]:
        return {"instanceSchema": artifact.schema}

    def keep(self, key: str, metadata: Mapping[str, Any]) -> dict[str, Any]:
        del key
        return dict(metadata)

    def environment(self, run: str, task: Mapping[str, Any]) -> dict[str, str]:
        del run, task
        return {}


BACKENDS = {"kubeflow": Kubeflow, "vertex": Vertex}
