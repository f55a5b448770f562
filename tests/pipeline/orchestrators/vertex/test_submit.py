"""The stock Vertex AI client submits over gRPC to a service on loopback."""

import math

import grpc
import pytest
from google.auth.credentials import AnonymousCredentials
from google.cloud import aiplatform
from google.protobuf import json_format

from pipeline.config.errors import UsageError
from pipeline.orchestrators.submitted_run import RunFailedError, RunTimeoutError
from pipeline.orchestrators.vertex.submit import submit_to_vertex
from tests.pipeline.orchestrators import compiled, credentials

PROJECT = "a-project"
REGION = "europe-west4"
PARENT = f"projects/{PROJECT}/locations/{REGION}"


@pytest.fixture
def submit(vertex, job_file):
    """A function that submits; what it reports is in its `lines`."""

    def run(package=job_file, **changes):
        arguments = {
            "project": PROJECT,
            "region": REGION,
            "display_name": "Spring greetings",
            "job_id": "greetings-1",
            "parameters": compiled.PARAMETERS,
            "credentials": AnonymousCredentials(),
            "poll_seconds": 0,
            "report": run.lines.append,
        }
        return submit_to_vertex(package, **(arguments | changes))

    run.lines = []
    return run


def sent_parameters(job):
    return dict(json_format.MessageToDict(job._pb.runtime_config)["parameterValues"])


def test_job_arrives_with_all_that_was_asked_for(vertex, submit, capfd):
    network = "projects/1/global/networks/private"
    run = submit(
        pipeline_root="gs://elsewhere/root",
        service_account="runner@a-project.iam.gserviceaccount.com",
        network=network,
        labels={"team": "language"},
        enable_caching=False,
    )
    (request,) = vertex.created
    assert (request.parent, request.pipeline_job_id) == (PARENT, "greetings-1")
    job = request.pipeline_job
    assert job.display_name == "Spring greetings"
    assert sent_parameters(job) == compiled.PARAMETERS
    assert job.runtime_config.gcs_output_directory == "gs://elsewhere/root"
    assert job.service_account == "runner@a-project.iam.gserviceaccount.com"
    assert job.network == network
    assert job.labels["team"] == "language"
    task = job.pipeline_spec["root"]["dag"]["tasks"]["Greeter"]
    assert dict(task["cachingOptions"]) == {"enableCache": False}
    assert set(vertex.hosts) == {f"{REGION}-aiplatform.googleapis.com:443"}
    assert (run.run_id, run.state) == ("greetings-1", "SUCCEEDED")
    assert submit.lines == [f"run Spring greetings started: {run.link}"]
    printed = capfd.readouterr()
    assert (printed.out, printed.err) == ("", "")


def test_link_is_the_one_that_the_client_logs(submit):
    link = submit().link
    job = aiplatform.PipelineJob.get(
        f"{PARENT}/pipelineJobs/greetings-1", credentials=AnonymousCredentials()
    )
    assert link == job._dashboard_uri()


def test_spec_in_yaml_runs_too(vertex, submit, spec_file):
    submit(package=spec_file, pipeline_root="gs://bucket/root")
    (request,) = vertex.created
    assert sent_parameters(request.pipeline_job) == compiled.PARAMETERS


def test_root_and_identifier_come_from_the_package(vertex, submit):
    run = submit(job_id=None)
    (request,) = vertex.created
    root = request.pipeline_job.runtime_config.gcs_output_directory
    assert root == "gs://bucket/root"
    assert run.run_id == request.pipeline_job_id
    assert run.run_id.startswith("greetings-2")  # and the time


def test_waiting_tells_every_state_until_success(vertex, submit):
    vertex.states = ["PENDING", "RUNNING", "RUNNING", "SUCCEEDED"]
    run = submit(wait_seconds=math.inf)
    assert run.state == "SUCCEEDED"
    assert submit.lines[1:] == ["RUNNING", "SUCCEEDED"]


def test_failed_job_names_the_tasks_that_failed(vertex, submit):
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
        RunFailedError, match=r"ended FAILED: it did not work; Greeter no GPU; its"
    ) as failure:
        submit(wait_seconds=60)
    assert failure.value.run.link in str(failure.value)


def test_cancelled_job_is_no_success(vertex, submit):
    vertex.states = ["RUNNING", "CANCELLED"]
    with pytest.raises(RunFailedError, match="ended CANCELLED; its logs"):
        submit(wait_seconds=60)


def test_job_that_takes_longer_than_waited_for_goes_on(vertex, submit):
    vertex.states = ["RUNNING"]
    with pytest.raises(RunTimeoutError, match="RUNNING after 0 s"):
        submit(wait_seconds=0)


def test_run_is_added_to_an_experiment_that_is_new(vertex, submit):
    submit(experiment="spring")
    store = f"{PARENT}/metadataStores/default"
    assert vertex.children == {
        f"{store}/contexts/spring": [f"{store}/contexts/greetings-1"]
    }


def test_name_of_something_else_is_no_experiment(vertex, submit):
    name = f"{PARENT}/metadataStores/default/contexts/spring"
    vertex.contexts[name] = aiplatform.gapic.Context(
        name=name, schema_title="system.Pipeline"
    )
    with pytest.raises(UsageError, match=r"experiment spring: .*not created.*type"):
        submit(experiment="spring")
    assert vertex.created == []


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"parameters": {"epochs": 1}}, "no parameter epochs; it has data-version"),
        ({"pipeline_root": "/tmp/root"}, "root is /tmp/root; Vertex AI writes to gs:"),
        ({"region": "atlantis"}, "Unsupported region"),
        ({"job_id": "1 job"}, "1 job is illegal"),
        ({"labels": {"team": 1}}, "does not take this"),
    ],
)
def test_what_does_not_fit_is_refused_before_anything_is_sent(
    vertex, submit, changes, message
):
    with pytest.raises(UsageError, match=message):
        submit(**changes)
    assert vertex.created == []


@pytest.mark.parametrize(
    ("status", "message"),
    [
        ("UNAUTHENTICATED", "no login.*gcloud auth application-default login"),
        ("PERMISSION_DENIED", "no login.*roles/aiplatform.user"),
        ("UNAVAILABLE", "region europe-west4 cannot be reached .*no login"),
        ("ALREADY_EXISTS", "no login.*Choose another job ID"),
        ("INVALID_ARGUMENT", "project a-project, region europe-west4 refused: no log"),
    ],
)
def test_refusal_is_told_with_what_to_do(vertex, submit, status, message):
    vertex.refusal = (grpc.StatusCode[status], "no login")
    with pytest.raises(UsageError, match=message):
        submit()


def test_application_default_credentials_are_used(
    vertex, submit, serve, monkeypatch, tmp_path
):
    endpoint = f"http://localhost:{serve(credentials.TokenEndpoint).server_port}"
    key = credentials.write_service_account(tmp_path / "key.json", endpoint)
    monkeypatch.setenv("GOOGLE_APPLICATION_CREDENTIALS", str(key))
    submit(credentials=None)
    accounts = {each.service_account_email for each in vertex.credentials}
    assert accounts == {"runner@a-project.iam.gserviceaccount.com"}


def test_missing_credentials_are_told_with_how_to_get_them(
    vertex, submit, monkeypatch, tmp_path
):
    monkeypatch.setenv("NO_GCE_CHECK", "true")
    monkeypatch.setenv("CLOUDSDK_CONFIG", str(tmp_path))
    monkeypatch.delenv("GOOGLE_APPLICATION_CREDENTIALS", raising=False)
    with pytest.raises(UsageError, match=r"no credentials .*application-default login"):
        submit(credentials=None)
    assert vertex.created == []


def test_key_that_was_deleted_is_told(vertex, submit, serve, monkeypatch, tmp_path):
    endpoint = f"http://localhost:{serve(credentials.DeletedKey).server_port}"
    key = credentials.write_service_account(tmp_path / "key.json", endpoint)
    monkeypatch.setenv("GOOGLE_APPLICATION_CREDENTIALS", str(key))
    with pytest.raises(UsageError, match=r"not accepted .*key was deleted"):
        submit(credentials=None)
    assert vertex.created == []
