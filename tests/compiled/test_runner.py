"""Pipelines of scripts: what a container receives, and where its outputs go.

They run as on Vertex AI; `test_kubeflow.py` has what is different on Kubeflow.
"""

import copy
import json

import pytest
from google.protobuf import json_format

from tests.compiled import worker
from tests.compiled.executor_input import UnresolvedError
from tests.compiled.runner import JobFailedError, JobRunner
from tests.compiled.spec import SpecRefusedError, check_spec

pytestmark = pytest.mark.nightly

SCHEMA = "title: tfx.File\ntype: object\nproperties:\n"

# The argument of each script is the ExecutorInput.
READ = "import json, sys; received = json.loads(sys.argv[1])\n"
URI = READ + "uri = received['outputs']['artifacts']['file']['artifacts'][0]['uri']\n"
WRITE = URI + "open(uri + '/received.json', 'w').write(json.dumps(received))\n"
REPORT = READ + (
    "import pathlib; file = pathlib.Path(received['outputs']['outputFile'])\n"
    "file.parent.mkdir(exist_ok=True, parents=True); file.write_text(json.dumps(%s))\n"
)
FAIL_TWICE = URI + (
    "log = open(uri + '/attempts', 'a+'); log.write('x'); log.seek(0)\n"
    "sys.exit(len(log.read()) < 3)\n"
)


@pytest.fixture(scope="module")
def server():
    with worker.start(preload=False) as started:
        yield started


@pytest.fixture
def runner(server, tmp_path):
    with JobRunner(
        "vertex", tmp_path / "root", tmp_path / "state", server=server
    ) as started:
        yield started


def step(script, *, after=(), parameters=None, artifacts=None, **task):
    """Returns a task and its container; `parameters` are sources by name."""
    return {
        "script": script,
        "task": {
            "dependentTasks": list(after),
            "inputs": {
                "parameters": parameters or {},
                "artifacts": artifacts or {},
            },
            **task,
        },
    }


def job(root=None, **steps):
    """Returns a pipeline of steps, whose parameters are `root` at the root."""
    spec = {
        "pipelineInfo": {"name": "scripts"},
        "schemaVersion": "2.1.0",
        "sdkVersion": "none",
        "components": {},
        "deploymentSpec": {"executors": {}},
        "root": {"dag": {"tasks": {}}, "inputDefinitions": {"parameters": root or {}}},
    }
    artifact = {"artifactType": {"instanceSchema": SCHEMA}}
    for name, definition in steps.items():
        inputs = definition["task"]["inputs"]
        spec["components"][name] = {
            "executorLabel": name,
            "inputDefinitions": {
                "parameters": {
                    key: {"parameterType": "STRING"} for key in inputs["parameters"]
                },
                "artifacts": dict.fromkeys(inputs["artifacts"], artifact),
            },
            "outputDefinitions": {
                "artifacts": {"file": artifact},
                "parameters": {"word": {"parameterType": "STRING"}}
                if "'word'" in definition["script"]
                else {},
            },
        }
        spec["deploymentSpec"]["executors"][name] = {
            "container": {
                "image": "image:1",
                "command": ["python", "-c"],
                "args": [definition["script"], "{{$}}"],
            }
        }
        spec["root"]["dag"]["tasks"][name] = {
            "taskInfo": {"name": name},
            "componentRef": {"name": name},
            **definition["task"],
        }
    return spec


def output_of(name):
    return {"taskOutputArtifact": {"producerTask": name, "outputArtifactKey": "file"}}


def constant(value):
    return {"runtimeValue": {"constant": value}}


def received(task):
    with open(task.outputs["file"]["uri"] + "/received.json") as file:
        return json.load(file)


def test_task_that_fails_twice_succeeds_with_two_retries(runner):
    spec = job(A=step(FAIL_TWICE, retryPolicy={"maxRetryCount": 2}))
    run = runner.run(spec)
    assert run.states == {"A": "run"}
    # The attempts share their outputs, as they share an ExecutorInput.
    assert run.tasks["A"].attempts == 3


def test_failure_names_the_task_and_stops_the_run(runner):
    spec = job(A=step("raise ValueError('a fish')"), B=step(WRITE, after=["A"]))
    with pytest.raises(
        JobFailedError, match=r"(?s)task A .*ValueError: a fish"
    ) as failed:
        runner.run(spec)
    assert failed.value.run.states == {"A": "failed"}


def test_parameter_has_its_value_or_its_default(runner):
    root = {
        "word": {"parameterType": "STRING", "defaultValue": "tree"},
        "number": {"parameterType": "NUMBER_INTEGER", "defaultValue": 3},
    }
    parameters = {name: {"componentInputParameter": name} for name in root}
    spec = job(root, A=step(WRITE, parameters=parameters))
    spec["components"]["A"]["inputDefinitions"]["parameters"] = {
        "word": {"parameterType": "STRING"},
        "number": {"parameterType": "NUMBER_INTEGER"},
    }
    default = received(runner.run(spec).tasks["A"])["inputs"]["parameterValues"]
    assert default == {"word": "tree", "number": 3}
    values = runner.run(spec, parameters={"word": "oak", "number": 4}).tasks["A"]
    assert received(values)["inputs"]["parameterValues"] == {"word": "oak", "number": 4}


@pytest.mark.parametrize(
    ("values", "text"),
    [
        ({}, "neither a value"),
        ({"word": 1}, "1 is not of type STRING"),
        ({"word": "a", "wrd": "b"}, "wrd: the pipeline has only"),
    ],
)
def test_wrong_parameters_are_refused(values, text, runner):
    spec = job({"word": {"parameterType": "STRING"}}, A=step(WRITE))
    with pytest.raises(SpecRefusedError, match=text):
        runner.run(spec, parameters=values)


@pytest.mark.parametrize(("value", "text"), [(3, "3"), (0.5, "0.5"), (True, "true")])
def test_number_for_a_string_is_written_as_by_the_launcher(value, text, runner):
    spec = job(A=step(WRITE, parameters={"x": constant(value)}))
    run = runner.run(spec)
    assert received(run.tasks["A"])["inputs"]["parameterValues"] == {"x": text}


def test_placeholders_of_a_command_are_filled(runner):
    spec = job(A=step(URI + "open(uri + '/received.json', 'w').write(sys.argv[2])"))
    spec["root"]["dag"]["tasks"]["A"]["inputs"]["parameters"]["x"] = constant("oak")
    declared = {"parameters": {"x": {"parameterType": "STRING"}}}
    spec["components"]["A"]["inputDefinitions"] = declared
    container = spec["deploymentSpec"]["executors"]["A"]["container"]
    container["args"].append("[\"{{$.inputs.parameters['x']}}\"]")
    assert received(runner.run(spec).tasks["A"]) == ["oak"]


def test_placeholder_in_a_value_is_refused(runner):
    spec = job(A=step(WRITE, parameters={"x": constant("{{$.pipeline_job_uuid}}")}))
    with pytest.raises(UnresolvedError, match="has a placeholder"):
        runner.run(spec)


def test_outputs_reach_the_next_task(runner):
    output = "{'parameterValues': {'word': 'oak'}, 'artifacts': {'file': %s}}"
    output %= "{'artifacts': [{'metadata': {'n': 2, 'b': True, 'l': [1]}}]}"
    word = {"producerTask": "A", "outputParameterKey": "word"}
    spec = job(
        A=step(REPORT % output),
        B=step(
            WRITE,
            after=["A"],
            parameters={"x": {"taskOutputParameter": word}},
            artifacts={"a": output_of("A")},
        ),
    )
    inputs = received(runner.run(spec).tasks["B"])["inputs"]
    assert inputs["parameterValues"] == {"x": "oak"}
    (artifact,) = inputs["artifacts"]["a"]["artifacts"]
    assert artifact["metadata"] == {"n": 2, "b": True, "l": [1]}


def test_input_of_a_task_that_is_not_a_dependency_is_refused(runner):
    spec = job(A=step(WRITE, artifacts={"b": output_of("B")}), B=step(WRITE))
    with pytest.raises(UnresolvedError, match="producer task 'B' has not run"):
        runner.run(spec)


def test_cache_outlives_the_runner_and_misses_after_a_change(server, tmp_path):
    spec = job(
        A=step(WRITE, cachingOptions={"enableCache": True}),
        B=step(
            WRITE,
            after=["A"],
            artifacts={"a": output_of("A")},
            cachingOptions={"enableCache": True},
        ),
        C=step(WRITE),
    )
    changed = copy.deepcopy(spec)
    container = changed["deploymentSpec"]["executors"]["A"]["container"]
    container["image"] = "image:2"
    states = []
    for version in (spec, spec, changed):
        with JobRunner(
            "vertex", tmp_path / "root", tmp_path / "state", server=server
        ) as runner:
            states.append("".join(runner.run(version).states.values()))
    # A task that is not cached runs; a new A is a new input of B.
    assert states == ["runrunrun", "cachedruncached", "runrunrun"]


def test_container_has_the_environment_of_image_and_spec(runner, monkeypatch):
    monkeypatch.setenv("OF_THE_TEST", "1")
    spec = job(
        A=step(
            URI + "import os; json.dump([dict(os.environ), os.listdir()], "
            "open(uri + '/received.json', 'w'))"
        )
    )
    container = spec["deploymentSpec"]["executors"]["A"]["container"]
    container["env"] = [{"name": "OF_THE_SPEC", "value": "2"}]
    environment, listing = received(runner.run(spec).tasks["A"])
    assert set(environment) - {"LC_CTYPE"} == {
        *("PATH", "HOME", "TF_USE_LEGACY_KERAS", "PYTHONPATH", "OF_THE_SPEC")
    }
    assert listing == []


def test_argument_that_is_too_long_for_a_process_is_refused(runner):
    spec = job(A=step(WRITE, parameters={"x": constant("x" * 140_000)}))
    with pytest.raises(ValueError, match="no process can be started"):
        runner.run(spec)


def test_pre_cache_check_changes_the_inputs(runner, tmp_path):
    spec = job(A=step(WRITE, parameters={"x": constant("before")}))
    container = spec["deploymentSpec"]["executors"]["A"]["container"]
    output = "{'parameterValues': {'x': 'after', 'span': 4}}"
    container["lifecycle"] = {
        "preCacheCheck": {
            "command": ["python", "-c"],
            "args": [REPORT % output, "{{$}}"],
        }
    }
    message = received(runner.run(spec).tasks["A"])
    assert message["outputs"]["outputFile"].startswith(str(tmp_path / "root"))
    assert message["inputs"]["parameterValues"] == {"x": "after", "span": 4}


def test_inputs_have_names_and_types(runner):
    spec = job(
        A=step(WRITE), B=step(WRITE, after=["A"], artifacts={"a": output_of("A")})
    )
    inputs = received(runner.run(spec).tasks["B"])["inputs"]
    (artifact,) = inputs["artifacts"]["a"]["artifacts"]
    assert artifact["name"].endswith("/metadataStores/default/artifacts/1")
    assert artifact["type"] == {"instanceSchema": SCHEMA}


def test_name_that_argo_does_not_allow_is_refused(runner):
    with pytest.raises(SpecRefusedError, match="task A_b: Argo allows"):
        runner.run(job(A_b=step(WRITE)))


def test_other_schema_version_is_refused():
    with pytest.raises(SpecRefusedError, match=r"'2\.0\.0'"):
        check_spec({**job(A=step(WRITE)), "schemaVersion": "2.0.0"})


def test_unknown_field_of_the_deployment_config_is_refused():
    spec = job(A=step(WRITE))
    spec["deploymentSpec"]["executors"]["A"]["container"]["cpu"] = 1
    with pytest.raises(json_format.ParseError, match='no field named "cpu"'):
        check_spec(spec)


def test_node_selector_is_accepted_in_a_second_document():
    selector = {"nodeSelector": {"labels": {"accelerator": "t4"}}}
    platforms = {"kubernetes": {"deploymentSpec": {"executors": {"A": selector}}}}
    check_spec(job(A=step(WRITE)), {"platforms": platforms})
    with pytest.raises(json_format.ParseError, match='no field named "platform"'):
        check_spec(job(A=step(WRITE)), {"platform": platforms})
