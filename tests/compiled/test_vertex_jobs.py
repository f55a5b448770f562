import copy

import pytest
from google.cloud import aiplatform
from google.cloud.aiplatform_v1.types import JobState

from tests.compiled import vertex_jobs, worker
from tests.compiled.container import image_environment

PARENT = "projects/somebody/locations/us-central1"
ENDPOINT = "us-central1-aiplatform.googleapis.com"


def custom_job(*command):
    pool = {
        "machine_spec": {"machine_type": "n1-standard-4"},
        "replica_count": 1,
        "container_spec": {"image_uri": "image:1", "command": list(command)},
    }
    return {
        "display_name": "training",
        "job_spec": {"worker_pool_specs": [pool]},
        "labels": {"team": "text"},
        "encryption_spec": {},
    }


@pytest.fixture
def client(tmp_path, monkeypatch):
    monkeypatch.setattr(aiplatform.gapic, "JobServiceClient", None)
    with worker.start(preload=False) as server:
        vertex_jobs.stand_in(tmp_path, image_environment(tmp_path), server)
        yield aiplatform.gapic.JobServiceClient({"api_endpoint": ENDPOINT})


@pytest.mark.parametrize(
    ("code", "state"), [(0, "JOB_STATE_SUCCEEDED"), (3, "JOB_STATE_FAILED")]
)
def test_job_is_recorded_and_ends_as_its_container(code, state, client, tmp_path):
    command = ("python", "-c", f"print('a tree'); exit({code})")
    created = client.create_custom_job(PARENT, custom_job(*command))
    assert created.state == JobState.JOB_STATE_PENDING
    assert client.get_custom_job(name=created.name).state == JobState[state]
    # It runs once for any number of requests.
    client.get_custom_job(name=created.name)
    (job,) = vertex_jobs.read_jobs(tmp_path)
    assert (job.parent, job.state) == (PARENT, state)
    (pool,) = job.request["job_spec"]["worker_pool_specs"]
    assert tuple(pool["container_spec"]["command"]) == command
    assert job.log.read_text() == "a tree\n"


def changed(change):
    job = copy.deepcopy(custom_job("true"))
    change(job, job["job_spec"]["worker_pool_specs"][0])
    return job


@pytest.mark.parametrize(
    ("change", "text"),
    [
        (lambda job, pool: pool.pop("replica_count"), "replica_count: must be 1"),
        (lambda job, pool: pool.pop("machine_spec"), "machine_type: empty"),
        (lambda job, pool: pool["container_spec"].pop("image_uri"), "image_uri: empty"),
        (lambda job, pool: job.pop("display_name"), "display_name"),
        (lambda job, pool: job["labels"].update(team="Text"), "labels"),
        (lambda job, pool: job["job_spec"].clear(), "worker_pool_specs: none"),
    ],
)
def test_incomplete_job_is_refused(change, text, client):
    with pytest.raises(vertex_jobs.InvalidJobError, match=text):
        client.create_custom_job(PARENT, changed(change))


def test_unknown_field_of_a_custom_job_is_refused(client):
    job = changed(lambda job, pool: pool.update(replicas=1))
    with pytest.raises(ValueError, match="replicas"):
        client.create_custom_job(PARENT, job)


def test_region_that_is_not_the_endpoints_is_refused(client):
    with pytest.raises(vertex_jobs.InvalidJobError, match="not of the region"):
        client.create_custom_job(
            "projects/a/locations/europe-west4", custom_job("true")
        )
