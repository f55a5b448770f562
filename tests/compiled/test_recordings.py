"""The stand-in for Kubeflow against recordings of the real backend."""

import json
import re
from pathlib import Path

import pytest

from tests.compiled import argo_status, executor_input, pod
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
        metadata = {k: v for k, v in artifact["metadata"].items() if k not in added}
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
    made = Kubeflow().environment("run")
    assert made.keys() == environment.keys()
    own = {"KFP_POD_NAME", "KFP_POD_UID"}
    assert {k: v for k, v in made.items() if k not in own} == {
        k: v for k, v in environment.items() if k not in own
    }
    assert recording["user"] == {
        "uid": pod.USER,
        "gid": 0,
        "capabilities": [],
        "no_new_privileges": True,
    }


def test_state_of_the_recorded_run_has_the_size_that_was_seen():
    first = [each for name, each in RECORDINGS.items() if "/" not in name]
    tasks = {each["task"]: argo_status.recorded_task(each) for each in first}
    size = argo_status.run_size(tasks) + sum(
        argo_status.task_size(
            component=each["component_spec"],
            task=tasks[each["task"]],
            command=each["command"],
            message=each["executor_input"],
        )
        for each in first
    )
    print("state of the recorded run:", size)
    assert size == pytest.approx(940_000, rel=0.1)
