"""The stand-in for Kubeflow against recordings of the real backend."""

import json
import re
from pathlib import Path

import pytest

from tests.compiled import executor_input, pod
from tests.compiled.backends import LOGS_KEY, LOGS_TYPE, Artifact, Kubeflow
from tests.compiled.runner import TaskRun

DIRECTORY = Path(__file__).with_name("recordings")
RECORDINGS = {
    str(path.relative_to(DIRECTORY).with_suffix("")): json.loads(path.read_text())
    for path in sorted(DIRECTORY.rglob("*.json"))
}
ROOT = "gs://bert-test/bert"
UUID = "[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}"

recorded = pytest.mark.parametrize("recording", RECORDINGS.values(), ids=RECORDINGS)


def directory(uri):
    return uri.rpartition("/")[0]


def task_directory(recording):
    logs = recording["executor_input"]["outputs"]["artifacts"][LOGS_KEY]
    return directory(logs["artifacts"][0]["uri"])


def compiled_component(recording):
    """Returns the component as it was compiled, without what the driver added."""
    component = json.loads(json.dumps(recording["component_spec"]))
    outputs = component["outputDefinitions"]["artifacts"]
    assert outputs.pop(LOGS_KEY) == {"artifactType": LOGS_TYPE}
    return component


def producers(recording, backend):
    """Returns the tasks that made the inputs, and the references to their outputs."""
    done, references = {}, {}
    inputs = recording["executor_input"]["inputs"].get("artifacts", {})
    for name, channel in inputs.items():
        (artifact,) = channel["artifacts"]
        added = ("display_name", "store_session_info")
        metadata = {
            name: value["struct"] if isinstance(value, dict) else value
            for name, value in artifact["metadata"].items()
            if name not in added
        }
        key = artifact["metadata"]["display_name"]
        task = directory(artifact["uri"]).split("/")[-2]
        run = done.setdefault(task, TaskRun(task, Path()))
        run.artifacts[key] = Artifact(
            int(artifact["name"]), artifact["uri"], "", backend.keep(key, metadata)
        )
        references[name] = {
            "taskOutputArtifact": {"producerTask": task, "outputArtifactKey": key}
        }
    return done, references


@recorded
def test_executor_input_is_the_recorded_one(recording):
    backend = Kubeflow()
    component = compiled_component(recording)
    message = recording["executor_input"]
    parameters = message["inputs"].get("parameterValues", {})
    done, references = producers(recording, backend)
    task = {
        "inputs": {
            "parameters": {
                name: {"runtimeValue": {"constant": value}}
                for name, value in parameters.items()
            },
            "artifacts": references,
        }
    }
    made = {
        "inputs": executor_input.inputs(task, component, {}, done, backend),
        "outputs": backend.outputs(component, task_directory(recording)),
    }
    assert made == message


@recorded
def test_outputs_are_where_they_were_recorded(recording):
    task = recording["task"]
    made = Kubeflow().task_directory(ROOT, "sample", "RUN", task)
    pattern = re.escape(f"{ROOT}/sample/RUN/{task}/") + UUID
    assert re.fullmatch(pattern, made)
    assert re.fullmatch(pattern.replace("RUN", UUID), task_directory(recording))


@recorded
def test_environment_and_user_are_the_recorded_ones(recording):
    environment = dict(recording["environment"])
    assert environment.pop("HOME") == pod.HOME
    # The second run was compiled without retries.
    has_retries = "-retry-" in environment["KFP_POD_NAME"]
    made = Kubeflow().environment("id", {"retryPolicy": {}} if has_retries else {})
    assert ("-retry-" in made["KFP_POD_NAME"]) == has_retries
    assert made.keys() == environment.keys()
    for name in ("KFP_POD_NAME", "KFP_POD_UID"):
        del made[name], environment[name]
    assert made == environment
    assert recording["user"] == {
        "uid": pod.USER,
        "gid": 0,
        "capabilities": [],
        "no_new_privileges": True,
    }
