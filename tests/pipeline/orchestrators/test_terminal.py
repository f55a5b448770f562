"""What a terminal shows of a submission, in a separate process."""

import os
import subprocess
import sys

SUBMIT = """
from pathlib import Path
from pipeline.cli import orchestrators
from contracts import errors
from pipeline.config import recipe
from pipeline.orchestrators.run_client import RunRequest, submit
config = recipe.load_config("recipe.yaml")
request = RunRequest("a", "b", "gs://bucket/root", {})
no_login = {"pod_token": False, "ca_file": None}
for name, host in (("kubeflow", "http://localhost:1"), ("vertex", None)):
    try:
        client = orchestrators._make_client(config, name, host=host, **no_login)
        submit(client, Path("pipeline.yaml"), request, print)
    except errors.UsageError as error:
        print(error)
"""
SPEC = "{pipelineInfo: {name: tiny}, root: {dag: {}}, schemaVersion: 2.1.0}"
RECIPE = """
name: tiny
data: {source: data}
encoder: {source: encoder}
evaluator: {thresholds: {accuracy: 0.5}}
kubeflow: &section {image: a, pipeline_root: gs://bucket/root}
vertex: {<<: *section, project: a, region: atlantis}
"""


def run(code, **options):
    finished = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, **options
    )
    assert finished.returncode == 0, finished.stderr
    return finished


def test_import_is_fast_since_no_client_is_imported():
    code = "import pipeline.cli.orchestrators, sys; print(*sys.modules)"
    modules = set(run(code).stdout.split())
    assert "pipeline.orchestrators.compilation" in modules
    slow = {"kfp", "grpc", "google.cloud.aiplatform", "tensorflow", "tfx", "urllib3"}
    assert not modules & slow


def test_error_is_all_that_is_shown(tmp_path, log_in):
    log_in()
    (tmp_path / "pipeline.yaml").write_text(SPEC)
    (tmp_path / "recipe.yaml").write_text(RECIPE)
    path = os.pathsep.join([os.getcwd(), os.environ.get("PYTHONPATH", "")])
    environment = {**os.environ, "HOME": str(tmp_path), "PYTHONPATH": path}
    finished = run(SUBMIT, cwd=tmp_path, env=environment)
    kubeflow, vertex = finished.stdout.splitlines()
    assert "cannot be reached" in kubeflow
    assert "Unsupported region" in vertex
    assert finished.stderr == ""
