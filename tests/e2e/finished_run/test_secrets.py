"""No secret of the environment is in what a run, a job or a command writes."""

import pytest

from pipeline.config.recipe import load_config
from pipeline.orchestrators import compilation
from tests.e2e import planted_secrets

pytestmark = pytest.mark.e2e

JOBS = {
    "kubeflow": {"image": "registry/bert:1", "pipeline_root": "gs://bucket/bert"},
    "vertex": {
        "image": "registry/bert:1",
        "pipeline_root": "gs://bucket/bert",
        "project": "project",
        "region": "europe-west4",
    },
}


def test_search_finds_a_secret_that_a_file_has(tmp_path):
    for name, content in (
        ("plain", planted_secrets.SECRET.encode()),
        ("base64", b"cGxhbnRlZC0zYjlkMGE="),
        ("wide", planted_secrets.SECRET.encode("utf-16-le")),
        ("none", b"planted-"),
    ):
        (tmp_path / name).write_bytes(b"\0" + content + b"\n")
    assert sorted(planted_secrets.find(tmp_path)) == ["base64", "plain", "wide"]


def test_secrets_of_a_run_are_in_nothing_that_it_wrote_or_printed(finished):
    # Its configuration, log, metadata, artifacts, report and pushed version.
    directory = finished.recipe.parent
    assert (finished.paths.metadata).is_file()
    assert sum(path.is_file() for path in directory.rglob("*")) > 100
    assert planted_secrets.find(directory) == []
    assert planted_secrets.SECRET not in finished.printed


def test_secrets_are_in_no_compiled_job(finished, tmp_path, monkeypatch):
    planted_secrets.plant(monkeypatch, tmp_path)
    jobs = tmp_path / "jobs"
    jobs.mkdir()
    config = load_config(finished.recipe, JOBS)
    for orchestrator in JOBS:
        job = compilation.compile_job(config, orchestrator)
        compilation.write_job(job, jobs / f"{orchestrator}.yaml")
        (jobs / f"{orchestrator}.staged").write_text(repr(job.staged))
    assert len(list(jobs.iterdir())) == 4
    assert planted_secrets.find(jobs) == []
