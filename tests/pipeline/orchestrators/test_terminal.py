"""What a terminal shows of a submission, in a process of its own."""

import os
import subprocess
import sys

import pytest

from tests.pipeline.orchestrators import credentials


def run(code, **environment):
    return subprocess.run(
        [sys.executable, "-c", code],
        env={**os.environ, **environment},
        capture_output=True,
        text=True,
        check=True,
    )


def test_import_is_fast_since_no_client_is_imported():
    code = "import pipeline.cli.orchestrators, sys; print(*sys.modules)"
    modules = set(run(code).stdout.split())
    assert "pipeline.orchestrators.vertex.submit" in modules
    slow = {"kfp", "grpc", "google.cloud.aiplatform", "tensorflow", "tfx", "urllib3"}
    assert not modules & slow


KUBEFLOW = """submit_to_kubeflow(
        package, server=KubeflowServer("http://localhost:1"),
        pipeline_name="a", experiment="b", run_name="c", parameters={})"""
VERTEX = """submit_to_vertex(
        package, project="a", region="atlantis", display_name="c", parameters={})"""


@pytest.mark.parametrize(
    ("call", "message"),
    [(KUBEFLOW, "cannot be reached"), (VERTEX, "Unsupported region")],
)
def test_error_is_all_that_is_shown(tmp_path, serve, call, message):
    package = tmp_path / "pipeline.yaml"
    package.write_text(
        "{pipelineInfo: {name: tiny}, root: {dag: {}}, schemaVersion: 2.1.0,"
        " defaultPipelineRoot: 'gs://bucket/root'}"
    )
    endpoint = f"http://localhost:{serve(credentials.TokenEndpoint).server_port}"
    key = credentials.write_service_account(tmp_path / "key.json", endpoint)
    code = f"""
from pathlib import Path
from pipeline.config import errors
from pipeline.orchestrators.kubeflow.server import KubeflowServer
from pipeline.orchestrators.kubeflow.submit import submit_to_kubeflow
from pipeline.orchestrators.vertex.submit import submit_to_vertex
package = Path({str(package)!r})
try:
    {call}
except errors.UsageError as error:
    print(error)
"""
    ended = run(code, HOME=str(tmp_path), GOOGLE_APPLICATION_CREDENTIALS=str(key))
    assert message in ended.stdout
    assert len(ended.stdout.splitlines()) == 1
    assert ended.stderr == ""
