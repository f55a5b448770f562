"""Vertex AI's own client starts and watches jobs of a service on loopback."""

import dataclasses
import math
import re

import grpc
import pytest
from google.auth.credentials import AnonymousCredentials
from google.cloud import aiplatform
from google.protobuf import json_format

from pipeline.config.orchestrators import VertexConfig
from pipeline.orchestrators.run_client import (
    RunFailedError,
    RunRequest,
)
from pipeline.orchestrators.run_client import submit as submit_run
from pipeline.orchestrators.vertex.run_client import VertexRunClient
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
def submit(vertex, spec_file, log_in, monkeypatch):
    """Submits; the messages of the last submission are in `lines`."""
    monkeypatch.setattr(VertexRunClient, "poll_seconds", 0)
    log_in()

    def submit(*, settings=None, wait_seconds=None, **changes):
        submit.lines = []
        client = VertexRunClient(SETTINGS.model_copy(update=settings or {}))
        request = dataclasses.replace(REQUEST, **changes)
        submit_run(client, spec_file, request, submit.lines.append, wait_seconds)
        return client

    return submit


def test_job_has_everything_that_was_requested(vertex, submit, capfd):
    network = "projects/1/global/networks/private"
    account = "runner@a-project.iam.gserviceaccount.com"
    run = submit(settings={"network": network}, service_account=account)
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


def test_error_of_a_failed_job_names_its_failed_tasks(vertex, submit):
    vertex.states = ["RUNNING", "FAILED"]
    tasks = [
        {"task_name": "Greeter", "state": "FAILED", "error": {"message": "no GPU"}},
        {"task_name": "Reader", "state": "SUCCEEDED"},
    ]
    vertex.failure = {
        "error": {"code": 9, "message": "it did not work"},
        "job_detail": {"task_details": tasks},
    }
    with pytest.raises(
        RunFailedError,
        match=r"ended FAILED: it did not work; Greeter no GPU; its .*console\.cloud",
    ):
        submit(wait_seconds=60)


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
