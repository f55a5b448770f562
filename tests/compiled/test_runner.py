"""What `JobRunner` repeats, caches and refuses, so that no test passes by mistake."""

import copy

import pytest
from google.protobuf import json_format

from tests.compiled import worker
from tests.compiled.executor_input import UnresolvedError
from tests.compiled.runner import JobRunner
from tests.compiled.spec import SpecRefusedError, check_spec, refuse_unsupported

pytestmark = pytest.mark.nightly

SCHEMA = "title: tfx.File\ntype: object\nproperties:\n"

# The argument of each script is the ExecutorInput.
READ = "import json, sys; received = json.loads(sys.argv[1])\n"
URI = READ + "uri = received['outputs']['artifacts']['file']['artifacts'][0]['uri']\n"
WRITE = URI + "open(uri + '/received.json', 'w').write(json.dumps(received))\n"
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
            "outputDefinitions": {"artifacts": {"file": artifact}},
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


def test_task_that_fails_twice_succeeds_with_two_retries(runner):
    spec = job(A=step(FAIL_TWICE, retryPolicy={"maxRetryCount": 2}))
    run = runner.run(spec)
    assert run.states == {"A": "run"}
    # The attempts share their outputs, as they share an ExecutorInput.
    assert run.tasks["A"].attempts == 3


WORD = {"word": {"parameterType": "STRING"}}


@pytest.mark.parametrize(
    ("steps", "values", "error", "text"),
    [
        ({}, {}, SpecRefusedError, "neither a value"),
        ({}, {"word": 1}, SpecRefusedError, "1 is not of type STRING"),
        ({}, {"word": "a", "wrd": "b"}, SpecRefusedError, "wrd: the pipeline has only"),
        ({"A_b": step(WRITE)}, {"word": "a"}, SpecRefusedError, "A_b: Argo allows"),
        (
            {"A": step(WRITE, parameters={"x": constant("{{$.pipeline_job_uuid}}")})},
            {"word": "a"},
            UnresolvedError,
            "has a placeholder",
        ),
        (
            {"A": step(WRITE, artifacts={"b": output_of("B")}), "B": step(WRITE)},
            {"word": "a"},
            UnresolvedError,
            "producer task 'B' has not run",
        ),
        (
            {"A": step(WRITE, parameters={"x": constant("x" * 140_000)})},
            {"word": "a"},
            ValueError,
            "no process can be started",
        ),
    ],
)
def test_job_that_no_backend_runs_is_refused(steps, values, error, text, runner):
    with pytest.raises(error, match=text):
        runner.run(job(WORD, **steps), parameters=values)


def test_resolver_is_refused():
    spec = job(A=step(WRITE))
    spec["deploymentSpec"]["executors"]["A"] = {"resolver": {}}
    with pytest.raises(SpecRefusedError, match="task A: resolver not implemented"):
        refuse_unsupported(spec)


def test_cache_misses_after_a_change(runner):
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
    runs = (runner.run(version) for version in (spec, spec, changed))
    states = ["".join(run.states.values()) for run in runs]
    # A task that is not cached runs; a new A is a new input of B.
    assert states == ["runrunrun", "cachedruncached", "runrunrun"]


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
