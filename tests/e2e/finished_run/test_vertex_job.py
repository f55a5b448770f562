"""The compiled job on Vertex AI Pipelines, with the champion of another pipeline.

`JobRunner` runs it on this machine, and its custom jobs too. No recording of Vertex
supports it.
"""

import shutil

import pytest
import tensorflow_text  # noqa: F401 (registers the tokenizer's ops)

from tests.compiled.spec import check_spec
from tests.e2e import jobs
from tests.e2e.check_results import find, read_table

pytestmark = [pytest.mark.e2e, pytest.mark.nightly]


def test_job_trains_in_a_custom_job_from_the_champion_and_pushes(restore, tmp_path):
    project = {"project": "project", "region": "europe-west4"}
    with jobs.compiled(tmp_path / "job", "vertex", **project) as job:
        champion = f"{job.root}/serving/tiny/1"
        shutil.copytree(restore().run.pushed, champion)
        run = job.runner.run(job.spec, parameters={"learning_rate": 0.002})
    check_spec(*job.documents)
    assert set(run.states.values()) == {"run"}
    assert jobs.learning_rate(run) == 0.002
    assert jobs.started_from(run) == f"the champion {champion}"
    verdict = jobs.verdict(run)
    assert verdict.blessed
    assert verdict.champion == champion
    old, new = job.served
    assert old == champion
    jobs.check_serving(run, new)
    ages = find(jobs.checks(run), "older_versions")
    _, older = read_table(ages)
    assert (older["version"], older["problem"]) == ("1", "")
    assert ages.figures["rows"] == 48

    (trainer,) = run.custom_jobs
    assert trainer.state == "JOB_STATE_SUCCEEDED"
    assert trainer.parent == "projects/project/locations/europe-west4"
    (pool,) = trainer.request["job_spec"]["worker_pool_specs"]
    assert pool["machine_spec"]["machine_type"] == "n1-standard-8"
    assert pool["container_spec"]["image_uri"] == "registry/bert:1"
