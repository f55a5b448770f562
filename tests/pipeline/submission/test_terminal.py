"""What a terminal shows of a submission, in a process of its own."""

import json
import os
import subprocess
import sys

import pytest


def run(code, **environment):
    return subprocess.run(
        [sys.executable, "-c", code],
        env={**os.environ, **environment},
        capture_output=True,
        text=True,
        check=True,
    )


def test_import_is_fast_since_no_client_is_imported():
    code = "import pipeline.submission, sys; print(*sys.modules, sep='\\n')"
    modules = set(run(code).stdout.split())
    assert "pipeline.submission.vertex" in modules
    assert not modules & {"kfp", "grpc", "google.cloud", "tensorflow", "tfx", "urllib3"}


KUBEFLOW = """
submission.submit_to_kubeflow(
    Path({package!r}), server=submission.KubeflowServer("http://localhost:1"),
    pipeline_name="a", experiment="b", run_name="c", parameters={parameters})
"""
VERTEX = """
submission.submit_to_vertex(
    Path({package!r}), project="a", region="europe-west4", display_name="c",
    parameters={parameters})
"""


@pytest.mark.parametrize(
    ("call", "message"),
    [(KUBEFLOW, "cannot be reached"), (VERTEX, "no credentials for Vertex AI")],
)
def test_error_is_all_that_is_shown(tmp_path, call, message):
    spec = {
        "pipelineInfo": {"name": "tiny"},
        "root": {"dag": {}},
        "schemaVersion": "2.1.0",
    }
    package = tmp_path / "pipeline.yaml"
    package.write_text(json.dumps(spec))
    statement = call.format(package=str(package), parameters="{}").strip()
    lines = statement.replace("\n", "\n    ")
    code = f"""
from pathlib import Path
from pipeline import errors, submission
try:
    {lines}
except errors.UsageError as error:
    print(error)
"""
    environment = {"NO_GCE_CHECK": "true", "HOME": str(tmp_path)}
    ended = run(code, **environment, GOOGLE_APPLICATION_CREDENTIALS="")
    assert message in ended.stdout
    assert len(ended.stdout.splitlines()) == 1
    assert ended.stderr == ""
