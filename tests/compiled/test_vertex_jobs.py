import pytest
from google.cloud import aiplatform
from google.cloud.aiplatform_v1.types import JobState

from tests.compiled import vertex_jobs, worker
from tests.compiled.container import image_environment

PARENT = "projects/somebody/locations/us-central1"
ENDPOINT = "us-central1-aiplatform.googleapis.com"


@pytest.mark.parametrize(
    ("code", "state"), [(0, "JOB_STATE_SUCCEEDED"), (3, "JOB_STATE_FAILED")]
)
def test_job_is_recorded_and_ends_as_its_container(code, state, tmp_path, monkeypatch):
    monkeypatch.setattr(aiplatform.gapic, "JobServiceClient", None)
    command = ("python", "-c", f"print('a tree'); exit({code})")
    container = {"image_uri": "image:1", "command": list(command)}
    job_spec = {"worker_pool_specs": [{"container_spec": container}]}
    with worker.start(preload=False) as server:
        vertex_jobs.stand_in(tmp_path, image_environment(tmp_path), server)
        client = aiplatform.gapic.JobServiceClient({"api_endpoint": ENDPOINT})
        created = client.create_custom_job(PARENT, {"job_spec": job_spec})
        assert created.state == JobState.JOB_STATE_PENDING
        assert client.get_custom_job(name=created.name).state == JobState[state]
        # It runs once for any number of requests.
        client.get_custom_job(name=created.name)
    (job,) = vertex_jobs.read_jobs(tmp_path)
    assert (job.parent, job.state) == (PARENT, state)
    (pool,) = job.request["job_spec"]["worker_pool_specs"]
    assert tuple(pool["container_spec"]["command"]) == command
    assert job.log.read_text() == "a tree\n"
