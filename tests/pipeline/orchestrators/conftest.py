"""A compiled package, and servers on loopback that it is submitted to."""

import concurrent.futures
import contextlib
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import grpc
import kfp
import pytest
from google.cloud.aiplatform_v1.services import metadata_service, pipeline_service

from pipeline.orchestrators.kubeflow.run_client import KubeflowRunClient
from tests.pipeline.orchestrators import credentials
from tests.pipeline.orchestrators.kubeflow.kubeflow_server import (
    KubeflowPipelines,
    handler,
)
from tests.pipeline.orchestrators.vertex.vertex_service import VertexAI


class NoStorage(BaseHTTPRequestHandler):
    """Cloud Storage for a user who may start pipelines but not read buckets."""

    def do_GET(self):
        self.send_response(403)
        self.send_header("Content-Length", "0")
        self.end_headers()

    def log_message(self, *_):
        pass


@pytest.fixture
def serve():
    """Serves a handler on loopback and returns the server."""
    with contextlib.ExitStack() as stack:

        def start(handler):
            server = stack.enter_context(ThreadingHTTPServer(("localhost", 0), handler))
            stack.callback(server.shutdown)
            threading.Thread(target=server.serve_forever, args=(0.01,)).start()
            return server

        yield start


@pytest.fixture(scope="session")
def spec_file(tmp_path_factory):
    """A pipeline spec in YAML."""
    from tests.pipeline.orchestrators import greeter

    return greeter.compile_package(tmp_path_factory.mktemp("spec") / "greet.yaml")


@pytest.fixture(scope="session")
def key_file(tmp_path_factory):
    """The private key of a service account."""
    return credentials.write_key(tmp_path_factory.mktemp("key") / "key.pem")


@pytest.fixture
def log_in(serve, key_file, monkeypatch, tmp_path):
    """A function that sets application-default credentials with a token endpoint."""

    def log_in(endpoint=credentials.TokenEndpoint):
        address = f"http://localhost:{serve(endpoint).server_port}/token"
        account = credentials.write_service_account(
            tmp_path / "account.json", key_file, address
        )
        monkeypatch.setenv("GOOGLE_APPLICATION_CREDENTIALS", str(account))
        return address

    return log_in


@pytest.fixture
def no_login(monkeypatch, tmp_path):
    """No application-default credentials anywhere."""
    monkeypatch.setenv("NO_GCE_CHECK", "true")
    monkeypatch.setenv("CLOUDSDK_CONFIG", str(tmp_path))
    monkeypatch.delenv("GOOGLE_APPLICATION_CREDENTIALS", raising=False)


@pytest.fixture(autouse=True)
def context_file(tmp_path, monkeypatch):
    """Where kfp stores a namespace, instead of the home directory."""
    file = tmp_path / "context.json"
    monkeypatch.setattr(kfp.Client, "_LOCAL_KFP_CONTEXT", str(file))
    for name in (
        *("KF_PIPELINES_ENDPOINT", "KF_PIPELINES_UI_ENDPOINT"),
        *("KF_PIPELINES_IAP_OAUTH2_CLIENT_ID", "KF_PIPELINES_APP_OAUTH2_CLIENT_ID"),
        *("KF_PIPELINES_APP_OAUTH2_CLIENT_SECRET", "KF_PIPELINES_SA_TOKEN_PATH"),
        *("KF_PIPELINES_TOKEN", "KF_PIPELINES_COOKIES"),
    ):
        monkeypatch.delenv(name, raising=False)
    return file


@pytest.fixture
def kubeflow(serve, monkeypatch):
    """Kubeflow Pipelines on loopback, with its address in `host`."""
    monkeypatch.setattr(KubeflowRunClient, "poll_seconds", 0)
    state = KubeflowPipelines()
    state.host = f"http://localhost:{serve(handler(state)).server_port}"
    return state


@pytest.fixture
def vertex(serve, monkeypatch):
    """Vertex AI on loopback. Clients connect over an insecure channel."""
    state = VertexAI()
    server = grpc.server(concurrent.futures.ThreadPoolExecutor(2))
    server.add_generic_rpc_handlers(state.handlers())
    port = server.add_insecure_port("localhost:0")
    server.start()

    def create_channel(_, host, credentials=None, **__):
        state.hosts.append(host)
        state.credentials.append(credentials)
        return grpc.insecure_channel(f"localhost:{port}")

    for transport in (
        pipeline_service.transports.PipelineServiceGrpcTransport,
        metadata_service.transports.MetadataServiceGrpcTransport,
    ):
        monkeypatch.setattr(transport, "create_channel", classmethod(create_channel))
    storage = f"http://localhost:{serve(NoStorage).server_port}"
    monkeypatch.setenv("STORAGE_EMULATOR_HOST", storage)
    yield state
    server.stop(None)
