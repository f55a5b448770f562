"""Vertex AI's own client starts and watches jobs of a service on loopback."""

import dataclasses
import json
import math
import re

import grpc
import pytest
from google.auth.credentials import AnonymousCredentials
from google.cloud import aiplatform
from google.protobuf import json_format

from pipeline import exit_status
from pipeline.config.orchestrators import VertexConfig
from pipeline.entrypoint import FAILURE_FILE
from pipeline.orchestrators.run_client import (
    RunFailedError,
    RunRequest,
)
from pipeline.orchestrators.run_client import submit as submit_run
from pipeline.orchestrators.vertex.run_client import VertexRunClient
from report.content import ERROR_FILE
from tests.pipeline.orchestrators import credentials, greeter
from tests.refusals import refused

SETTINGS = VertexConfig(
    image="registry/bert:1",
    pipeline_root="gs://bucket/root",
    project="a-project",
    region="europe-west4",
    service_account="default@a-project.iam.gserviceaccount.com",
)
REQUEST = RunRequest(
    pipeline_name="greetings",
    run_name="Spring greetings",
    pipeline_root="gs://bucket/root",
    parameters=greeter.PARAMETERS,
)
PARENT = "projects/a-project/locations/europe-west4"


@pytest.fixture
def root(tmp_path):
    """The pipeline root, a local directory."""
    return tmp_path / "root"


@pytest.fixture
def submit(vertex, spec_file, log_in, monkeypatch, root):
    """Submits; the messages of the last submission are in `lines`."""
    monkeypatch.setattr(VertexRunClient, "poll_seconds", 0)
    log_in()

    def submit(*, settings=None, wait_seconds=None, **changes):
        submit.lines = []
        client = VertexRunClient(SETTINGS.model_copy(update=settings or {}))
        changes = {"pipeline_root": str(root), **changes}
        request = dataclasses.replace(REQUEST, **changes)
        submit_run(client, spec_file, request, submit.lines.append, wait_seconds)
        return client

    return submit


def test_job_has_everything_that_was_requested(vertex, submit, capfd):
    network = "projects/1/global/networks/private"
    account = "runner@a-project.iam.gserviceaccount.com"
    run = submit(
        settings={"network": network},
        service_account=account,
        pipeline_root="gs://bucket/root",
    )
    (request,) = vertex.created
    assert request.parent == PARENT
    job = request.pipeline_job
    assert job.display_name == "Spring greetings"
    config = json_format.MessageToDict(job._pb.runtime_config)
    assert config["parameterValues"] == greeter.PARAMETERS
    assert config["gcsOutputDirectory"] == "gs://bucket/root"
    assert job.service_account == account
    assert job.network == network
    assert set(vertex.hosts) == {"europe-west4-aiplatform.googleapis.com:443"}
    senders = {sender.service_account_email for sender in vertex.credentials}
    assert senders == {"runner@a-project.iam.gserviceaccount.com"}
    assert run.run_id == request.pipeline_job_id
    assert run.run_id.startswith("greetings-2")  # and the time
    assert run.state == "SUCCEEDED"
    assert submit.lines == [f"run Spring greetings started: {run.link}"]
    printed = capfd.readouterr()
    assert (printed.out, printed.err) == ("", "")


def test_service_account_of_the_settings_is_the_default(vertex, submit):
    submit()
    assert vertex.created[0].pipeline_job.service_account == SETTINGS.service_account


def test_link_is_the_one_that_the_client_logs(submit):
    run = submit()
    job = aiplatform.PipelineJob.get(
        f"{PARENT}/pipelineJobs/{run.run_id}", credentials=AnonymousCredentials()
    )
    assert run.link == job._dashboard_uri()


def test_waiting_reports_every_state_until_success(vertex, submit):
    vertex.states = ["PENDING", "RUNNING", "RUNNING", "SUCCEEDED"]
    run = submit(wait_seconds=math.inf)
    assert run.state == "SUCCEEDED"
    assert submit.lines[1:] == ["RUNNING", "SUCCEEDED"]


@pytest.fixture
def failing(vertex):
    """The tasks of a job that fails."""
    vertex.states = ["RUNNING", "FAILED"]
    tasks = [
        {
            "task_name": "Greeter",
            "task_id": 2,
            "parent_task_id": 1,
            "state": "FAILED",
            "error": {"message": "no GPU"},
        },
        {"task_name": "Reader", "task_id": 3, "parent_task_id": 1, "state": "FAILED"},
        {"task_name": "greetings", "task_id": 1, "state": "FAILED"},
    ]
    vertex.failure = {
        "error": {"code": 9, "message": "it did not work"},
        "job_detail": {"task_details": tasks},
    }
    return tasks


def test_error_of_a_failed_job_names_its_failed_tasks(failing, submit):
    failing[1]["state"] = "SUCCEEDED"
    with pytest.raises(
        RunFailedError,
        match=r"ended FAILED: it did not work; Greeter no GPU; its .*console\.cloud",
    ) as error:
        submit(wait_seconds=60)
    assert error.value.exit_status == exit_status.FAILURE


def write_file(root, vertex, name, content):
    """Writes a file of the run."""
    path = root / "a-project" / vertex.created[0].pipeline_job_id / name
    path.parent.mkdir(parents=True)
    path.write_text(content)
    return path


@pytest.mark.parametrize(("status", "expected"), [(2, 2), (1, 1)])
def test_refusal_of_a_component_has_its_message_and_status(
    vertex, failing, submit, root, monkeypatch, status, expected
):
    read_state = VertexRunClient.read_state

    def record_failures(client):
        if not root.exists():
            for name, code in (("Greeter_-12", 2), ("Reader_3", status)):
                record = {"exit_status": code, "error": f"no fish\nfor {name}"}
                file = f"{name}/{FAILURE_FILE.format(0)}"
                write_file(root, vertex, file, json.dumps(record))
        return read_state(client)

    monkeypatch.setattr(VertexRunClient, "read_state", record_failures)
    with pytest.raises(RunFailedError) as error:
        submit(wait_seconds=60)
    assert str(error.value).startswith(
        "the run ended FAILED: it did not work; Greeter ended with exit status 2:\n"
        "  no fish\n  for Greeter_-12\n"
        f"Reader ended with exit status {status}:\n  no fish\n  for Reader_3\nits logs"
    )
    assert error.value.exit_status == expected


def test_bucket_that_cannot_be_read_hides_neither_failure_nor_success(
    vertex, failing, submit
):
    with pytest.raises(RunFailedError, match=r"Greeter no GPU\n(.*\n)*\(s3://bucket/"):
        submit(wait_seconds=60, pipeline_root="s3://bucket/root")
    vertex.states = ["SUCCEEDED"]
    vertex.created.clear()
    submit(wait_seconds=60, pipeline_root="s3://bucket/root")
    assert "whether it has a report is unknown: s3://bucket/root/" in submit.lines[-1]


def test_missing_report_is_printed_after_success(vertex, submit, root, monkeypatch):
    read_state = VertexRunClient.read_state
    written = []

    def write_error(client):
        if not written:
            content = "the report (TypeError: no optimizer)\n\nTraceback"
            file = f"Report_-12/report/{ERROR_FILE}"
            written.append(write_file(root, vertex, file, content))
        return read_state(client)

    monkeypatch.setattr(VertexRunClient, "read_state", write_error)
    submit(wait_seconds=60)
    assert submit.lines[-1] == (
        "the run succeeded; missing: the report (TypeError: no optimizer); see "
        f"{written[0]}"
    )


def test_cancelled_job_is_not_a_success(vertex, submit):
    vertex.states = ["RUNNING", "CANCELLED"]
    with pytest.raises(RunFailedError, match="ended CANCELLED; its logs"):
        submit(wait_seconds=60)


def test_run_is_added_to_a_new_experiment(vertex, submit):
    run = submit(experiment="spring")
    store = f"{PARENT}/metadataStores/default"
    assert vertex.children == {
        f"{store}/contexts/spring": [f"{store}/contexts/{run.run_id}"]
    }


def test_name_of_another_context_is_refused_as_experiment(vertex, submit):
    name = f"{PARENT}/metadataStores/default/contexts/spring"
    vertex.contexts[name] = aiplatform.gapic.Context(
        name=name, schema_title="system.Pipeline"
    )
    got = re.compile("^spring: .*not created.*type")
    with refused("E-settings-refused", setting="experiment", got=got):
        submit(experiment="spring")
    assert vertex.created == []


@pytest.mark.parametrize(
    ("settings", "setting", "got"),
    [
        ({"pipeline_root": "/tmp/root"}, "vertex.pipeline_root", "^/tmp/root$"),
        ({"region": "atlantis"}, "vertex", "refuses a setting: Unsupported region"),
    ],
)
def test_impossible_setting_is_refused_before_anything_is_sent(
    vertex, submit, settings, setting, got
):
    with refused("E-settings-refused", setting=setting, got=re.compile(got)):
        submit(settings=settings)
    assert vertex.created == []


@pytest.mark.parametrize(
    ("status", "problem", "advice"),
    [
        ("UNAUTHENTICATED", "no login$", "^run `gcloud auth application-default login"),
        ("PERMISSION_DENIED", "no login$", "roles/aiplatform.user"),
        ("UNAVAILABLE", r"Vertex AI cannot be reached \(.*no login", "the network"),
        ("INVALID_ARGUMENT", "Vertex AI refused: no login$", "^$"),
    ],
)
def test_refusal_is_reported_with_what_to_do(vertex, submit, status, problem, advice):
    vertex.refusal = (grpc.StatusCode[status], "no login")
    got = re.compile(f"^project a-project, region europe-west4: {problem}")
    advice = re.compile(advice)
    with refused("E-orchestrator-refused", setting="vertex", got=got, advice=advice):
        submit()


def test_missing_credentials_are_reported_with_how_to_get_them(vertex, submit, request):
    request.getfixturevalue("no_login")
    with refused(
        "E-orchestrator-refused",
        got=re.compile("no credentials$"),
        advice=re.compile("application-default login"),
    ):
        submit()
    assert vertex.created == []


def test_deleted_key_is_refused(vertex, submit, log_in):
    log_in(credentials.DeletedKey)
    got = re.compile("not accepted .*key was deleted")
    with refused("E-orchestrator-refused", got=got):
        submit()
    assert vertex.created == []
