"""The stand-in for Kubeflow: its pods, and what its launcher does around a command."""

import json

import pytest

from tests.compiled import argo_status, pod, worker
from tests.compiled.backends import LOGS_KEY, Kubeflow
from tests.compiled.runner import JobFailedError, JobRunner
from tests.compiled.test_recordings import RECORDINGS
from tests.compiled.test_runner import READ, job, output_of, step

pytestmark = [pytest.mark.slow, pytest.mark.usefixtures("pods")]

# A script gets the ExecutorInput as its argument. The launcher uploads what it writes
# to the local path of an output.
LOCAL = READ + (
    "uri = received['outputs']['artifacts']['file']['artifacts'][0]['uri']\n"
    "uri = uri.replace('gs://', '/gcs/')\n"
)
WRITE = LOCAL + "open(uri, 'w').write(json.dumps(received))\n"
DESCRIBE = LOCAL + (
    "import os\n"
    "status = open('/proc/self/status').read().splitlines()\n"
    "facts = {\n"
    "    'status': dict(line.split(':', 1) for line in status),\n"
    "    'user': [os.getuid(), os.getgid(), os.getgroups()],\n"
    "    'environment': dict(os.environ),\n"
    "    'directory': os.getcwd(),\n"
    f"    'entries': {{path: os.listdir(path) for path in {pod.EMPTY[1:]!r}}},\n"
    "}\n"
    "open(uri, 'w').write(json.dumps(facts))\n"
)


@pytest.fixture(scope="module")
def server(object_store):
    with worker.start(preload=False, store=object_store) as started:
        yield started


@pytest.fixture
def runner(object_store, server, tmp_path):
    root = f"{object_store.new_bucket()}/root"
    with JobRunner(
        "kubeflow", root, tmp_path / "state", store=object_store, server=server
    ) as started:
        yield started


KILLED = "import os; os.kill(os.getpid(), 9)"


def test_lost_pod_is_repeated_and_a_killed_command_is_not(runner):
    spec = job(A=step(KILLED, retryPolicy={"maxRetryCount": 5}))
    for is_lost, attempts in ((False, 1), (True, 2)):
        runner.pod_is_lost = is_lost
        with pytest.raises(JobFailedError, match="task A failed") as failed:
            runner.run(spec)
        assert failed.value.run.tasks["A"].attempts == attempts


def test_container_is_restricted_as_the_recorded_pod(runner, object_store):
    spec = job(A=step(DESCRIBE, retryPolicy={"maxRetryCount": 2}))
    run = runner.run(spec)
    facts = json.loads(object_store.read(run.tasks["A"].outputs["file"]["uri"]))
    recording = RECORDINGS["Trainer"]
    assert facts["user"] == [recording["user"]["uid"], recording["user"]["gid"], []]
    for capabilities in ("CapInh", "CapPrm", "CapEff", "CapBnd", "CapAmb"):
        assert int(facts["status"][capabilities], 16) == 0
    assert facts["status"]["NoNewPrivs"].strip() == "1"
    assert facts["environment"].keys() >= recording["environment"].keys()
    assert facts["directory"] == pod.HOME
    assert not any(facts["entries"].values())


def test_files_of_one_container_are_not_in_the_next(runner, object_store):
    litter = "import os\nfor path in ('/gcs', '/tmp', '/.cache', os.environ['HOME']):\n"
    litter += "    open(path + '/litter', 'w')\n"
    run = runner.run(job(A=step(litter + WRITE), B=step(DESCRIBE, after=["A"])))
    facts = json.loads(object_store.read(run.tasks["B"].outputs["file"]["uri"]))
    assert not any(facts["entries"].values())


def test_marker_of_a_directory_fails_the_component_that_reads_it(
    runner, object_store, monkeypatch
):
    """Finding 2, which the job must not cause."""
    publish = runner._publish

    def publish_with_marker(component, reported, done):
        uri = done.executor_input["outputs"]["artifacts"]["file"]["artifacts"][0]["uri"]
        object_store.delete(uri)
        for key in ("/", "/schema.pbtxt"):
            object_store.write(f"{uri}{key}")
        publish(component, reported, done)

    monkeypatch.setattr(runner, "_publish", publish_with_marker)
    spec = job(
        A=step(WRITE), B=step(WRITE, after=["A"], artifacts={"schema": output_of("A")})
    )
    with pytest.raises(
        JobFailedError, match='download input artifact "schema"'
    ) as failed:
        runner.run(spec)
    assert failed.value.run.states == {"A": "run", "B": "failed"}


def test_failed_command_is_not_repeated_and_leaves_its_log(runner, object_store):
    """Finding 5: `maxRetryCount` does not help."""
    spec = job(
        A=step("print('a tree'); raise SystemExit(3)", retryPolicy={"maxRetryCount": 2})
    )
    with pytest.raises(JobFailedError, match="exit status 3") as failed:
        runner.run(spec)
    task = failed.value.run.tasks["A"]
    assert task.attempts == 1
    logs = task.executor_input["outputs"]["artifacts"][LOGS_KEY]["artifacts"][0]["uri"]
    assert object_store.read(logs).startswith(b"a tree\n")


def test_null_in_metadata_is_refused():
    with pytest.raises(ValueError, match="metadata n is null"):
        Kubeflow().keep("file", {"n": None})


def test_state_of_the_recorded_run_has_the_size_that_was_seen():
    first = [each for name, each in RECORDINGS.items() if "/" not in name]
    spec = argo_status.recorded_spec(first)
    tasks = spec["root"]["dag"]["tasks"]
    size = argo_status.run_size(tasks) + sum(
        argo_status.task_size(
            component=each["component_spec"],
            task=tasks[each["task"]],
            command=each["command"],
            message=each["executor_input"],
        )
        for each in first
    )
    assert size == pytest.approx(argo_status.RECORDED_BYTES, rel=0.05)
    recorded = argo_status.RECORDED_SPEC_BYTES
    assert argo_status.spec_size(spec) == pytest.approx(recorded, rel=0.02)
