"""The differences between the two backends in what a container receives.

Kubeflow follows the open-source backend of 2.3 to 2.5 (kubeflow/pipelines,
`backend/src/v2`: `driver/driver.go`, `metadata/client.go`, `component/launcher_v2.go`);
Vertex follows what TFX's entry point expects, and its `container/testdata`.
"""

import dataclasses
import json
import uuid
from collections.abc import Mapping
from pathlib import Path
from typing import Any

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
    """The open-source backend."""

    # It ignores `lifecycle`.
    PRE_CACHE_CHECK = False

    def new_run(self, pipeline: str) -> str:
        """Returns the id of a new run."""
        del pipeline
        return str(uuid.uuid4())

    def task_directory(self, root: Path, pipeline: str, run: str, task: str) -> Path:
        """Returns a new directory for a task's outputs, shared by all attempts."""
        return root / pipeline / run / task / str(uuid.uuid4())

    def output_file(self, task: Path, attempt: Path) -> Path:
        """Returns the path of the ExecutorOutput, in the container's file system."""
        del task
        return attempt / "kfp_outputs" / "output_metadata.json"

    def name(self, artifact: Artifact) -> str:
        """Returns an input's name."""
        return str(artifact.number)

    def type(self, artifact: Artifact) -> dict[str, str]:
        """Returns an input's type, which is empty: `client.go` does not look it up.

        TFX's entry point cannot read that, see tensorflow/tfx#7768.
        """
        del artifact
        return {"instanceSchema": ""}

    def keep(self, key: str, metadata: Mapping[str, Any]) -> dict[str, Any]:
        """Returns an output's metadata as the store returns it later.

        Raises:
          ValueError: A value is null, which `converter.go` refuses.
        """
        kept = {"display_name": key, "store_session_info": "{}"}
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


class Vertex:
    """Vertex AI Pipelines."""

    PRE_CACHE_CHECK = True

    def new_run(self, pipeline: str) -> str:
        """Returns the id of a new run."""
        return f"{pipeline}-{uuid.uuid4().hex[:14]}"

    def task_directory(self, root: Path, pipeline: str, run: str, task: str) -> Path:
        """Returns a new directory for a task's outputs, shared by all attempts."""
        del pipeline
        return root / PROJECT_NUMBER / run / f"{task}_{uuid.uuid4().int >> 65}"

    def output_file(self, task: Path, attempt: Path) -> Path:
        """Returns the path of the ExecutorOutput of the driver and the container."""
        del attempt
        return task / "executor_output.json"

    def name(self, artifact: Artifact) -> str:
        """Returns an input's name."""
        store = f"projects/{PROJECT_NUMBER}/locations/{LOCATION}/metadataStores/default"
        return f"{store}/artifacts/{artifact.number}"

    def type(self, artifact: Artifact) -> dict[str, str]:
        """Returns an input's type."""
        return {"instanceSchema": artifact.schema}

    def keep(self, key: str, metadata: Mapping[str, Any]) -> dict[str, Any]:
        """Returns an output's metadata as the store returns it later."""
        del key
        return dict(metadata)


BACKENDS = {"kubeflow": Kubeflow, "vertex": Vertex}


class Store:
    """The state of a backend between runs: IDs of artifacts and the cache.

    Args:
      path: JSON file of the state.
    """

    def __init__(self, path: Path) -> None:
        self._path = path
        self._state: dict[str, Any] = {"artifacts": 0, "executions": {}}
        if path.exists():
            self._state = json.loads(path.read_text())

    def add(self, uri: str, schema: str, metadata: dict[str, Any]) -> Artifact:
        """Returns a new artifact."""
        self._state["artifacts"] += 1
        self._save()
        return Artifact(self._state["artifacts"], uri, schema, metadata)

    def find(
        self, fingerprint: str
    ) -> tuple[dict[str, Artifact], dict[str, Any]] | None:
        """Returns artifacts and parameters of a cached execution, None without one."""
        execution = self._state["executions"].get(fingerprint)
        if execution is None:
            return None
        artifacts = {k: Artifact(**a) for k, a in execution["artifacts"].items()}
        return artifacts, execution["parameters"]

    def remember(
        self,
        fingerprint: str,
        artifacts: dict[str, Artifact],
        parameters: dict[str, Any],
    ) -> None:
        """Adds an execution to the cache."""
        self._state["executions"][fingerprint] = {
            "artifacts": {k: dataclasses.asdict(a) for k, a in artifacts.items()},
            "parameters": parameters,
        }
        self._save()

    def _save(self) -> None:
        self._path.write_text(json.dumps(self._state))
