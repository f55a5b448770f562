"""What is set up before TensorFlow and TFX are imported."""

import concurrent.futures
import http.server
import os
import socket
import subprocess
import sys
import tempfile
import threading
import urllib.error
import urllib.request
from unittest import mock

import grpc
import httpx
import pytest
import tensorflow as tf

from modules import environment
from tests import silent_proxy
from tests.nightly import nightly

pytestmark = pytest.mark.slow


def run(script):
    return subprocess.run(
        [sys.executable, "-c", script], capture_output=True, text=True, check=False
    )


def test_tensorflow_is_imported_without_output_and_not_searched_for_garbage():
    process = run(
        """
import gc, sys
from modules import environment
environment.set_up(quiet=True)
before = len(gc.get_objects())
import tensorflow as tf
print(len(gc.get_objects()) < before, gc.get_freeze_count() > 100_000, gc.isenabled())
with environment.importing():
    with environment.importing():
        pass
    print(gc.isenabled())
print(gc.isenabled(), int(tf.constant(1) + 1))
print("a word of our own", file=sys.stderr)
"""
    )
    assert process.returncode == 0, process.stderr
    assert process.stdout.split() == ["True", "True", "True", "False", "True", "2"]
    assert process.stderr == "a word of our own\n"


def test_conversion_by_autograph_leaves_no_bytecode(tmp_path, monkeypatch):
    monkeypatch.setattr(sys, "dont_write_bytecode", False)
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))

    @tf.function
    def absolute(x):
        if x < 0:
            return -x
        return x

    assert absolute(tf.constant(-1)) == 1
    (converted,) = os.listdir(tmp_path)
    assert converted.endswith(".py")
    assert not sys.dont_write_bytecode


def test_failed_import_shows_the_hidden_output(tmp_path):
    (tmp_path / "tensorflow.py").write_text(
        "import os\nos.write(2, b'no such library\\n')\nraise ImportError('broken')\n"
    )
    process = run(
        f"""
import sys
from modules import environment
environment.set_up(quiet=True)
sys.path.insert(0, {str(tmp_path)!r})
import tensorflow
"""
    )
    assert process.returncode == 1
    first, *_, last = process.stderr.splitlines()
    assert first == "no such library"
    assert last == "ImportError: broken"


@pytest.fixture
def proxy():
    """A proxy that accepts connections and never responds; this process uses it."""
    with (
        silent_proxy.listening() as (proxy, variables),
        mock.patch.dict(os.environ, variables, clear=True),
    ):
        yield proxy


BYPASSED = [
    *[{}, {"no_proxy": ""}, {"no_proxy": "*"}, {"no_proxy": "example.com"}],
    *[{"NO_PROXY": "example.com"}, {"no_proxy": "", "NO_PROXY": "example.com"}],
    *[{"no_grpc_proxy": ""}, {"no_grpc_proxy": "a.example", "no_proxy": "b.example"}],
    {"no_proxy": "localhost.example, 127.0.0.1.example,"},
]
BYPASSED[3:-2] = map(nightly, BYPASSED[3:-2])


@pytest.mark.parametrize("variables", BYPASSED)
def test_connections_on_this_machine_bypass_the_proxy(proxy, variables):
    os.environ.update(variables)
    environment.set_up()
    for host in (socket.gethostname(), "127.0.1.1", "0.0.0.0"):
        assert urllib.request.proxy_bypass(host)
        for name in ("no_proxy", "no_grpc_proxy"):
            assert os.environ[name] == "*" or host in os.environ[name].split(",")
    server = grpc.server(concurrent.futures.ThreadPoolExecutor(1))
    hosts = ("localhost", "127.0.0.1", "[::1]")
    addresses = [f"{host}:{server.add_insecure_port(f'{host}:0')}" for host in hosts]
    server.start()
    try:
        for address in addresses:
            with (
                grpc.insecure_channel(address) as channel,
                pytest.raises(grpc.RpcError, match="UNIMPLEMENTED"),
            ):
                channel.unary_unary("/none")(b"", timeout=10)
    finally:
        server.stop(None).wait()
    handler = http.server.SimpleHTTPRequestHandler
    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), handler) as server:
        serve = threading.Thread(target=server.serve_forever, args=(0.01,), daemon=True)
        serve.start()
        for host in ("localhost", "127.0.0.1"):
            url = f"http://{host}:{server.server_port}/none"
            with pytest.raises(urllib.error.HTTPError, match="404"):
                urllib.request.urlopen(url, timeout=10)
            assert httpx.get(url, timeout=10).status_code == 404
        server.shutdown()


@pytest.mark.parametrize(
    ("variables", "is_bypassed"),
    [
        ({}, False),
        ({"no_proxy": ""}, False),
        ({"no_proxy": "", "NO_PROXY": "example.com"}, False),
        ({"no_proxy": "*"}, True),
        ({"no_proxy": "a.example, example.com"}, True),
        ({"NO_PROXY": "example.com"}, True),
    ],
)
def test_proxy_settings_for_other_machines_are_kept(proxy, variables, is_bypassed):
    os.environ.update(variables)
    environment.set_up()
    assert bool(urllib.request.proxy_bypass("example.com")) == is_bypassed
    first = dict(os.environ)
    environment.set_up()
    assert dict(os.environ) == first


def test_grpc_to_other_machines_uses_the_proxy(proxy):
    os.environ["no_proxy"] = "b.example"
    environment.set_up()
    with grpc.insecure_channel("a.example:1") as channel:
        call = channel.unary_unary("/none").future(b"")
        connection, _ = proxy.accept()
        with connection:
            assert connection.recv(1000).startswith(b"CONNECT a.example:1 ")
        call.cancel()
