"""What a cluster of Kubeflow Pipelines recorded about the pods of a run."""

import json
from pathlib import Path

DIRECTORY = Path(__file__).parents[3] / "compiled" / "recordings"


def pods(run: str = ".") -> dict[str, str]:
    """Returns the names of the pods of a recorded run, by component."""
    return {
        file.stem: json.loads(file.read_text())["launcher_flags"]["pod_name"]
        for file in sorted((DIRECTORY / run).glob("*.json"))
    }


def node_id(pod: str) -> str:
    """Returns the ID of a pod's node: the workflow, `NAME-SUFFIX`, and the hash."""
    name, suffix, *_, number = pod.split("-")
    return f"{name}-{suffix}-{number}"
