"""A bucket that cannot be reached is refused soon, with its path."""

import contextlib
import http.server
import os
import re
import socket
import subprocess
import sys
import threading

import pytest

from contracts.storage import files, reachability
from pipeline.config.paths import REPOSITORY
from tests import silent_proxy
from tests.refusals import refused

PATH = "gs://bucket/model"


@pytest.fixture(autouse=True)
def without_pauses(monkeypatch):
    monkeypatch.setattr(reachability, "_PAUSE_SECONDS", 0.0)
    monkeypatch.setattr(reachability, "_TIMEOUT_SECONDS", 0.5)
    monkeypatch.setenv("NO_GCE_CHECK", "true")
    for name in list(os.environ):
        if name.lower().endswith("_proxy"):
            monkeypatch.delenv(name)


@contextlib.contextmanager
def refusing():
    """Yields the address of a port where nobody listens."""
    with socket.socket() as bound:
        bound.bind(("127.0.0.1", 0))
        yield f"http://127.0.0.1:{bound.getsockname()[1]}"


@contextlib.contextmanager
def accepting():
    """Yields the address of a proxy that accepts connections and never responds."""
    with silent_proxy.listening() as (_, environment):
        yield environment["https_proxy"]


@contextlib.contextmanager
def closing():
    """Yields the address of a server that closes every connection."""
    with socket.create_server(("127.0.0.1", 0)) as server:

        def close():
            with contextlib.suppress(OSError):
                while True:
                    server.accept()[0].close()

        threading.Thread(target=close, daemon=True).start()
        yield f"http://127.0.0.1:{server.getsockname()[1]}"
        server.shutdown(socket.SHUT_RDWR)


@pytest.mark.parametrize("server", [refusing, accepting, closing])
@pytest.mark.parametrize("variable", ["https_proxy", "STORAGE_EMULATOR_HOST"])
def test_bucket_behind_a_server_that_does_not_respond_is_refused(
    monkeypatch, object_store, server, variable
):
    monkeypatch.setenv("https_proxy", object_store.environment["https_proxy"])
    with server() as address:
        monkeypatch.setenv(variable, address)
        with refused("E-network-failed", setting=PATH) as caught:
            files.check_remote(PATH)
    assert "\n" not in str(caught.value)


def test_host_whose_name_is_not_resolved_is_named(monkeypatch, object_store):
    monkeypatch.setenv("https_proxy", object_store.environment["https_proxy"])
    monkeypatch.setenv("STORAGE_EMULATOR_HOST", "http://storage.invalid")
    with refused("E-network-failed", setting=PATH) as caught:
        files.check_remote(PATH)
    assert "storage.invalid" in caught.value.got


def test_look_up_of_a_name_without_an_end_does_not_keep_the_process():
    code = (
        "import socket, threading\n"
        "from contracts.storage import files, reachability\n"
        "import modules\n"
        "socket.getaddrinfo = lambda *_, **__: threading.Event().wait()\n"
        "reachability._DEADLINE_SECONDS = 0.1\n"
        f"files.check_remote({PATH!r})\n"
    )
    environment = {k: v for k, v in os.environ.items() if "proxy" not in k.lower()}
    command = [sys.executable, "-c", code]
    ended = subprocess.run(
        command,
        cwd=REPOSITORY,
        env=environment,
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert "no response in 0.1 s" in ended.stderr.splitlines()[-1]


@pytest.fixture
def without_credentials(bucket, monkeypatch, tmp_path):
    monkeypatch.setenv("CLOUDSDK_CONFIG", str(tmp_path))
    monkeypatch.delenv("GOOGLE_APPLICATION_CREDENTIALS")
    monkeypatch.delenv("GOOGLE_AUTH_TOKEN_FOR_TESTING")


def test_bucket_that_responds_is_not_refused(bucket, object_store):
    files.check_remote(bucket)
    for status in (401, 403, 404, 503):
        object_store.fail(bucket, status, times=None)
        files.check_remote(bucket)  # its client reports what it lacks


@pytest.mark.usefixtures("without_credentials")
def test_private_bucket_without_credentials_is_refused(bucket, object_store):
    files.check_remote(bucket)  # it is public
    object_store.fail(bucket, 401, times=None)
    path = f"{bucket}/model"
    with refused("E-network-failed", setting=path, advice=re.compile("gcloud auth")):
        files.check_remote(path)


def test_socks_proxy_is_left_to_the_client(monkeypatch):
    with refusing() as address:
        socks = address.replace("http", "socks5h")
        monkeypatch.setenv("all_proxy", socks)
        files.check_remote(PATH)


@contextlib.contextmanager
def metadata():
    """Yields the address of a server of a machine's credentials."""

    class Handler(http.server.BaseHTTPRequestHandler):
        def do_GET(self):
            self.send_response(200)
            self.send_header("Metadata-Flavor", "Google")
            self.end_headers()

        def log_message(self, *_):
            pass

    with http.server.HTTPServer(("127.0.0.1", 0), Handler) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        yield f"http://127.0.0.1:{server.server_port}"
        server.shutdown()


@pytest.mark.usefixtures("without_credentials")
@pytest.mark.parametrize("server", [metadata, refusing, accepting, closing])
def test_credentials_of_the_machine_are_skipped_where_it_has_no_such_server(
    bucket, object_store, monkeypatch, server
):
    monkeypatch.setattr(reachability, "_METADATA_SECONDS", 0.5)
    monkeypatch.setenv("http_proxy", "http://127.0.0.1:9")
    monkeypatch.delenv("NO_GCE_CHECK")
    object_store.fail(bucket, 401, times=None)
    is_present = server is metadata
    with server() as address:
        monkeypatch.setenv("GCE_METADATA_HOST", address.removeprefix("http://"))
        with contextlib.nullcontext() if is_present else refused("E-network-failed"):
            files.check_remote(bucket)
    assert ("NO_GCE_CHECK" in os.environ) is not is_present
