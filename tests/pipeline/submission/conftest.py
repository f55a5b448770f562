"""Fixtures of the submissions: compiled packages, and servers on loopback."""

import contextlib
import threading
from http.server import ThreadingHTTPServer

import pytest


@pytest.fixture
def serve():
    """A function that serves a handler on loopback and returns the server."""
    with contextlib.ExitStack() as stack:

        def start(handler):
            server = stack.enter_context(ThreadingHTTPServer(("localhost", 0), handler))
            stack.callback(server.shutdown)
            threading.Thread(target=server.serve_forever, args=(0.01,)).start()
            return server

        yield start


@pytest.fixture(scope="session")
def spec_file(tmp_path_factory):
    """A pipeline spec in YAML, as Kubeflow Pipelines takes it."""
    from tests.pipeline.submission import compiled

    return compiled.compile_package(tmp_path_factory.mktemp("spec") / "greet.yaml")


@pytest.fixture(scope="session")
def job_file(tmp_path_factory):
    """A Vertex AI job in JSON."""
    from tests.pipeline.submission import compiled

    return compiled.compile_package(tmp_path_factory.mktemp("job") / "greet.json")
