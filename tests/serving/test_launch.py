"""The server as a process: start, change of versions under load, and shutdown."""

import contextlib
import json
import os
import shutil
import signal
import socket
import subprocess
import sys
import threading
from concurrent.futures import ThreadPoolExecutor

import grpc
import httpx
import psutil
import pytest
from grpc_health.v1 import health_pb2, health_pb2_grpc

from pipeline.config.paths import REPOSITORY
from tests.serving import plain_models, small_models
from tests.serving.conftest import PATIENCE_SECONDS, wait_until
from tests.serving.processes import started

pytestmark = pytest.mark.slow

SERVING = health_pb2.HealthCheckResponse.SERVING
NOT_SERVING = health_pb2.HealthCheckResponse.NOT_SERVING


@pytest.mark.nightly
def test_versions_change_under_load_and_sigterm_drains(tmp_path):
    counter, go = tmp_path / "counter", tmp_path / "go"
    small_models.save_counter(counter / "1", 1)
    hidden = small_models.save_counter(counter / ".2.incomplete", 2)
    with started(counter, "--grpc-port", "0") as server:
        predictions, stop = [], threading.Event()

        def hammer():
            while not stop.is_set():
                predictions.append(server.predict())

        with ThreadPoolExecutor(8) as clients, contextlib.ExitStack() as end:
            end.callback(go.touch)
            end.callback(stop.set)
            # Version 1 finishes this request, however long it takes.
            slow = clients.submit(server.predict, small_models.WAITING)
            wait_until(lambda: server.metric("serving_requests_in_flight") == 1)
            hammering = [clients.submit(hammer) for _ in range(4)]
            wait_until(lambda: len(predictions) > 50)
            hidden.rename(counter / "2")
            wait_until(lambda: server.states().get(2) == "AVAILABLE")
            assert server.states()[1] == "UNLOADING"
            wait_until(lambda: (200, 2) in predictions)
            go.touch()
            assert slow.result() == (200, 1)
            wait_until(lambda: server.states()[1] == "END")

            (counter / "3").mkdir()
            (counter / "3" / "saved_model.pb").write_text("broken")
            wait_until(lambda: server.states().get(3) == "END")
            assert "cannot load" in server.read()
            count = len(predictions)
            wait_until(lambda: len(predictions) > count + 50)
            stop.set()
            for client in hammering:
                client.result()
        versions = [version for _, version in predictions]
        assert {status for status, _ in predictions} == {200}
        assert set(versions) == {1, 2}
        assert versions[-1] == 2
        error = server.http.get("/v1/models/counter/versions/3").json()
        assert error["model_version_status"][0]["status"]["error_code"] == "INTERNAL"
        assert server.predict(path="counter/versions/2") == (200, 2)
        assert server.predict(path="counter/versions/1")[0] == 404
        assert server.metric("serving_loaded_versions") == 1
        go.unlink()
        # A version that never finishes loading does not delay the shutdown.
        endless = shutil.copytree(counter / "2", counter / ".4.incomplete")
        os.mkfifo(endless / "manifest.json")
        endless.rename(counter / "4")
        with ThreadPoolExecutor(1) as opener:
            opening = opener.submit((counter / "4" / "manifest.json").open, "w")
            with opening.result(PATIENCE_SECONDS):  # once the server reads it
                drain(server, go)


def drain(server, go):
    """Stops a server with requests in flight, which end once a file exists."""
    with (
        ThreadPoolExecutor(4) as clients,
        contextlib.ExitStack() as end,
        grpc.insecure_channel(server.rpc) as channel,
    ):
        end.callback(go.touch)
        watched = health_pb2_grpc.HealthStub(channel).Watch(
            health_pb2.HealthCheckRequest()
        )
        assert next(watched).status == SERVING
        waiting = small_models.WAITING
        slow = [clients.submit(server.predict, waiting) for _ in range(4)]
        wait_until(lambda: server.metric("serving_requests_in_flight") == 4)
        server.process.send_signal(signal.SIGTERM)
        assert next(watched).status == NOT_SERVING
        wait_until(lambda: is_refused(server.http.base_url.port))
        assert server.process.poll() is None  # it still computes
        go.touch()
        assert [request.result() for request in slow] == [(200, 2)] * 4
        assert server.process.wait(PATIENCE_SECONDS) == 0
        assert "draining: 4 requests in flight" in server.read()


def is_refused(port):
    """Returns whether a new connection is refused."""
    with socket.socket() as client:
        return client.connect_ex(("127.0.0.1", port)) != 0


@pytest.mark.usefixtures("foreground")
def test_drain_of_a_closed_terminal_ends_at_its_deadline(counter):
    arguments = ("--no-grpc", "--no-batching", "--drain-seconds", "0.2")
    with started(counter, *arguments) as server, ThreadPoolExecutor(1) as clients:
        assert server.rpc == "off"
        path, content = "/v1/models/counter:predict", {"instances": [1 << 40]}
        endless = clients.submit(server.http.post, path, json=content)
        wait_until(lambda: server.metric("serving_requests_in_flight") == 1)
        server_process = psutil.Process(server.process.pid)
        # The kernel sends it to all processes of a terminal.
        for process in (*server_process.children(recursive=True), server_process):
            process.send_signal(signal.SIGHUP)
        assert server.process.wait(PATIENCE_SECONDS) == 1
        assert "1 requests were not finished in 0.2 s" in server.read()
        assert "no version can be loaded" not in server.read()
        with contextlib.suppress(httpx.TransportError):
            assert endless.result().status_code == 500


REFUSED = """
import importlib, json, sys
from click.testing import CliRunner

main = importlib.import_module(sys.argv[2]).main
for arguments in json.loads(sys.argv[1]):
    result = CliRunner().invoke(main, ["serve", *arguments])
    print(json.dumps([result.exit_code, result.stderr]))
assert not {"tensorflow", "onnxruntime", "tokenizers"} & {*sys.modules}
"""


@pytest.mark.parametrize("program", ["pipeline.cli.main", "bert_runtime.cli.main"])
def test_bad_usage_is_one_line_and_loads_no_runtime_of_models(
    counter, tmp_path, program
):
    root, is_runtime = counter, program.startswith("bert_runtime")
    if is_runtime:
        root = tmp_path / "echo"
        plain_models.save(root / "1")
    model, free = ["--model", str(root)], ["--port", "0"]
    sampled = [*model, "--sample-dir", str(tmp_path / "kept")]
    file = str(next(path for path in (root / "1").iterdir() if path.is_file()))
    empty = tmp_path / "empty"
    empty.mkdir()
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = str(taken.getsockname()[1])
        in_use = f"cannot listen on 127.0.0.1 port {port}: Address already in use; "
        cases = [
            (
                [*model, "--port", port],
                f"--port: {in_use}",
                "--host and --port [E-port-unavailable]",
            ),
            (
                [*model, *free, "--grpc-port", port],
                "--grpc-port: no such option; "
                if is_runtime
                else f"--grpc-port: {in_use}",
                "" if is_runtime else "--grpc-port [E-port-unavailable]",
            ),
            ([*model, "--name", "a?b"], "--name: no URL can reach 'a?b'; allowed", ""),
            ([*model, "--name", ""], "--name: no URL can reach ''; allowed: ", ""),
            ([*model, "--label", "a?b=1"], "--label: no URL can reach 'a?b'; ", ""),
            ([*model, "--token-file", "none"], "--token-file: none: No such file", ""),
            ([*model, "--tls-cert", "none"], "--tls-cert: none; add --tls-key", ""),
            (["--model", str(empty)], f"--model: {empty} has no complete ", ""),
            ([*model, "--redact", "a:b"], "--redact: no rows are kept", ""),
            ([*sampled, "--redact", "a"], "--redact: a; allowed: MODULE:FUNCTION", ""),
            ([*sampled, "--redact", "no:no"], "--redact: no:no cannot be imported", ""),
            ([*model, "--sample-dir", file], f"--sample-dir: {file} cannot be", ""),
        ]
        requests = json.dumps([case[0] for case in cases])
        finished = subprocess.run(
            [sys.executable, "-c", REFUSED, requests, program],
            cwd=REPOSITORY,
            env={**os.environ, "COLUMNS": "80"},
            stdout=subprocess.PIPE,
            text=True,
            check=True,
            timeout=PATIENCE_SECONDS,
        )
    results = map(json.loads, finished.stdout.splitlines())
    for (status, error), (_, start, end) in zip(results, cases, strict=True):
        assert status == 2
        (line,) = error.splitlines()
        assert line.startswith(f"error: {start}")
        assert line.endswith(end)
