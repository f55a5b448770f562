"""How `submit --wait` explains the end of a run: from the API and from its files."""

import json
import os
import threading

import pytest
import yaml

from pipeline import entrypoint
from pipeline.orchestrators.kubeflow import kfp_client
from pipeline.orchestrators.kubeflow.login import KubeflowServer
from pipeline.orchestrators.run_client import RunFailedError
from report.content import ERROR_FILE
from tests.pipeline.orchestrators.kubeflow import recordings
from tests.pipeline.orchestrators.kubeflow.kubeflow_server import handler

POD = recordings.pods()["Trainer"]
TRACEBACK = 'Traceback (most recent call last):\n  File "loop.py"\nValueError: no GPU'
# The last two lines are the launcher's and Argo's.
POD_LOG = """step 1
step 2
F1126 00:56:00.000000      1 main.go:58] failed to execute component: signal: killed
Error: exit status 1
"""


def tasks(component, **states):
    """The tasks of a run with one component that failed, named as in version 2.17."""
    nodes = {
        "sample-f5l4h": "FAILED",
        "sample-f5l4h(0)": "FAILED",
        "root-driver": "SUCCEEDED",
        "root-driver(0)": "SUCCEEDED",
        "root": "FAILED",
        "root(0)": "FAILED",
        f"{component}-driver": "SUCCEEDED",
        f"{component}-driver(0)": "SUCCEEDED",
        component: "FAILED",
        f"{component}(0)": "FAILED",
        "executor": "FAILED",
        "executor(0)": "FAILED",
        "Reader": "SUCCEEDED",
    }
    children = {"executor": [{"pod_name": recordings.node_id(POD)}]}
    return [
        {
            "display_name": name,
            "state": states.get(name, state),
            "child_tasks": children.get(name, []),
        }
        for name, state in nodes.items()
    ]


@pytest.fixture
def package(spec_file, tmp_path):
    """A package with one component, Trainer, which has two retries."""
    text = spec_file.read_text().replace("Greeter", "Trainer")
    spec = yaml.safe_load(text)
    (task,) = spec["root"]["dag"]["tasks"].values()
    task["retryPolicy"] = {"maxRetryCount": 2}
    package = tmp_path / "trainer.yaml"
    package.write_text(yaml.safe_dump(spec))
    return package


@pytest.fixture
def write(root):
    """Writes a file of the run, and returns its path."""

    def write(name, content):
        path = root / "greetings" / "run-0" / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(content)
        return path

    return write


@pytest.fixture
def record(write):
    """Writes what the entry point records about a failure."""

    def record(component, error=TRACEBACK, exit_status=1, uuid="a-uuid", attempt=0):
        content = {"exit_status": exit_status, "error": error}
        name = f"{component}/{uuid}/{entrypoint.FAILURE_FILE.format(attempt)}"
        return write(name, json.dumps(content))

    return record


@pytest.fixture
def failure(kubeflow, submit, package):
    """Submits a run that fails, and returns the error."""
    kubeflow.states = ["RUNNING", "FAILED"]
    kubeflow.failure = {"run_details": {"task_details": tasks("Trainer")}}

    def failure(**changes):
        with pytest.raises(RunFailedError) as error:
            submit(wait_seconds=60, package=package, **changes)
        failure.exit_status = error.value.exit_status
        return str(error.value)

    return failure


def test_failed_component_is_named_once_with_its_error(kubeflow, failure, record):
    record("Trainer", exit_status=3)
    assert failure() == (
        "the run ended FAILED: Trainer ended with exit status 3:\n"
        '  Traceback (most recent call last):\n    File "loop.py"\n'
        "  ValueError: no GPU\n"
        f"its logs are at {kubeflow.host}/#/runs/details/run-0"
    )


def test_log_of_the_launcher_is_shown_without_a_failure_record(failure, write):
    lines = [f"step {i}" for i in range(99)] + ["\x1b[31mkilled\x1b[0m\a"]
    write("Trainer/a-uuid/executor-logs-0", "of the first attempt")
    write("Trainer/a-uuid/executor-logs-1", "\n".join(lines))
    message = failure()
    assert message.startswith("the run ended FAILED: Trainer failed; the last lines")
    assert message.splitlines()[1:-1] == [f"  {x}" for x in [*lines[85:99], "killed"]]


def test_pod_log_is_read_through_the_api_server(kubeflow, failure, monkeypatch):
    kubeflow.token = "a-secret"
    monkeypatch.setenv("KF_PIPELINES_TOKEN", "a-secret")
    kubeflow.logs = {POD: POD_LOG}
    message = failure()
    assert "Trainer failed (signal: killed); the last lines of its log:\n" in message
    assert "\n  step 2\n" in message
    request = kubeflow.requests[-1]
    assert request.path == f"/apis/v1alpha1/runs/run-0/nodes/{POD}/log"
    assert request.headers["authorization"] == "Bearer a-secret"


@pytest.mark.parametrize(
    ("logs", "log_type"),
    [
        ({}, "text/plain"),
        ({POD: '{"error_message":"no pod","error_details":"no pod"}'}, "text/plain"),
        ({POD: "<html>the user interface</html>"}, "text/html"),
    ],
)
def test_unavailable_log_is_replaced_by_a_kubectl_command(
    kubeflow, failure, logs, log_type
):
    kubeflow.logs, kubeflow.log_type = logs, log_type
    assert failure() == (
        "the run ended FAILED: Trainer failed: see Trainer on the run's page, or run "
        f"`kubectl logs --namespace kubeflow {POD} --container main`; "
        f"its logs are at {kubeflow.host}/#/runs/details/run-0"
    )


def test_log_that_is_never_sent_does_not_hide_the_failure(
    kubeflow, failure, serve, monkeypatch
):
    monkeypatch.setattr(kfp_client, "TIMEOUT", (0.2, 0.2))
    released = threading.Event()

    class Hanging(handler(kubeflow)):
        def _request(self):
            request = super()._request()
            if request.path.endswith("/log"):
                released.wait(20)
            return request

    host = f"http://localhost:{serve(Hanging).server_port}"
    try:
        message = failure(server=KubeflowServer(host))
    finally:
        released.set()
    assert f"`kubectl logs --namespace kubeflow {POD} --container main`" in message


def test_run_without_named_tasks_is_explained_by_its_files(kubeflow, failure, record):
    kubeflow.failure = {}
    record("Evaluator", "ValueError: no rows")
    record("Trainer")
    message = failure()
    assert "FAILED: Evaluator ended with exit status 1:\n" in message
    assert "\n  ValueError: no rows\nTrainer ended with exit status 1:\n" in message


RUNNING = {"Trainer": "RUNNING", "Trainer(0)": "RUNNING"}
SKIPPED = {"Trainer-driver": "FAILED", "Trainer": "SKIPPED", "Trainer(0)": "SKIPPED"}


@pytest.mark.parametrize(
    ("states", "recorded", "part"),
    [
        ({}, "Trainer", "ended FAILED: it did not work; Trainer ended with"),
        (RUNNING, "Evaluator", "ended FAILED: it did not work; Evaluator ended with"),
        (SKIPPED, None, "Trainer did not start: see Trainer-driver on the run's"),
        (None, None, "neither the API nor the run's files name the failed component"),
    ],
)
def test_component_is_named_by_the_api_or_the_files(
    kubeflow, failure, record, states, recorded, part
):
    if states is None:
        kubeflow.failure = {}
    else:
        details = tasks("Trainer", **states)
        kubeflow.failure = {"run_details": {"task_details": details}}
        kubeflow.failure["error"] = {"code": 2, "message": "it did not work"}
    if recorded:
        record(recorded)
    assert part in failure()


def test_component_without_a_pod_in_the_api_is_shown_with_a_kubectl_command(
    kubeflow, failure
):
    details = [{"display_name": "Trainer", "state": "FAILED"}]
    kubeflow.failure["run_details"]["task_details"] = details
    message = failure(server=KubeflowServer(kubeflow.host, namespace="team"))
    command = "kubectl get pods --namespace team --selector pipeline/runid=run-0"
    assert (
        f"Trainer failed: see Trainer on the run's page, or run `{command}`" in message
    )


def test_bucket_that_cannot_be_read_does_not_hide_the_failure(kubeflow, failure):
    kubeflow.logs = {POD: POD_LOG}
    message = failure(pipeline_root="s3://bucket/root")
    assert "Trainer failed (signal: killed); the last lines" in message
    assert "\n(s3://bucket/root/greetings/run-0 cannot be read: " in message


@pytest.mark.parametrize(
    ("first", "second"), [({"uuid": "b"}, {"uuid": "a"}), ({}, {"attempt": 1})]
)
def test_newest_record_of_a_component_is_shown(failure, record, first, second):
    os.utime(record("Trainer", "of the first attempt", **first), (1, 1))
    record("Trainer", "of the second attempt", **second)
    message = failure()
    assert "\n  of the second attempt\n" in message
    assert "first" not in message


def test_log_is_shown_for_an_attempt_that_was_killed_after_one_that_failed(
    kubeflow, failure, record
):
    os.utime(record("Trainer", exit_status=2), (1, 1))
    record("Trainer", error="", attempt=1)
    kubeflow.logs = {POD: POD_LOG}
    assert "Trainer failed (signal: killed); the last lines" in failure()
    assert failure.exit_status == 1


REFUSED = "the data are refused:\n" + "".join(f"  row {i}\n" for i in range(20))


def test_refused_data_are_shown_from_the_start_with_the_status_of_bad_usage(
    failure, record
):
    record("Trainer", REFUSED, exit_status=2)
    _, *lines, _ = failure().splitlines()
    assert lines == [f"  {line}" for line in REFUSED.splitlines()]
    assert failure.exit_status == 2


def test_status_of_bad_usage_is_known_from_the_log_of_a_pod(kubeflow, failure):
    kubeflow.logs = {POD: POD_LOG.replace("signal: killed", "exit status 2")}
    assert "Trainer failed (exit status 2); the last lines" in failure()
    assert failure.exit_status == 2


def test_failure_besides_a_refusal_is_no_bad_usage(kubeflow, failure, record):
    kubeflow.failure = {}
    record("DataGate", REFUSED, exit_status=2)
    record("Trainer")
    failure()
    assert failure.exit_status == 1


def test_missing_report_is_printed_after_success(submit, write):
    error = "the report (TypeError: no optimizer)\n\nTraceback"
    file = write(f"Report/a-uuid/report/{ERROR_FILE}", error)
    submit(wait_seconds=60)
    assert submit.lines[-1] == (
        f"the run succeeded; missing: the report (TypeError: no optimizer); see {file}"
    )


def test_complete_report_is_not_mentioned(submit, write):
    write("Report/a-uuid/report/report.html", "<html>")
    submit(wait_seconds=60)
    assert submit.lines[1:] == ["SUCCEEDED"]


def test_bucket_that_cannot_be_read_does_not_hide_success(submit):
    run = submit(wait_seconds=60, pipeline_root="s3://bucket/root")
    assert run.state == "SUCCEEDED"
    assert "whether it has a report is unknown: s3://bucket/root/" in submit.lines[-1]
