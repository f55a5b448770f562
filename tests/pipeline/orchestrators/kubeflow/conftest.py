"""A function that submits a small pipeline to the server on loopback."""

import dataclasses

import pytest

from pipeline.orchestrators.kubeflow.login import KubeflowServer
from pipeline.orchestrators.kubeflow.run_client import KubeflowRunClient
from pipeline.orchestrators.run_client import RunRequest
from pipeline.orchestrators.run_client import submit as submit_run
from tests.pipeline.orchestrators import greeter

REQUEST = RunRequest(
    pipeline_name="greetings",
    run_name="run-1",
    pipeline_root="s3://bucket/root",
    parameters=greeter.PARAMETERS,
    experiment="spring",
)


@pytest.fixture
def root(tmp_path):
    """The pipeline root, a local directory."""
    return tmp_path / "root"


@pytest.fixture
def submit(kubeflow, spec_file, root):
    """Submits; the messages of the last submission are in `lines`."""

    def submit(
        server=None, *, wait_seconds=None, report=None, package=spec_file, **changes
    ):
        submit.lines = []
        client = KubeflowRunClient(server or KubeflowServer(kubeflow.host))
        changes = {"pipeline_root": str(root), **changes}
        request = dataclasses.replace(REQUEST, **changes)
        submit_run(
            client, package, request, report or submit.lines.append, wait_seconds
        )
        return client

    return submit
