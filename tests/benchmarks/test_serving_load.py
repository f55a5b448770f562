"""Clients that load a server, refused rows and statuses, and the table."""

import json
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import click
import pytest

from benchmarks import serving_load
from benchmarks.peers import server as server_peer
from tests import tiny

PATH = "/v1/models/m:predict"
ROWS = [[f"first {index}", f"second {index}"] for index in range(12)]


@pytest.fixture
def serve():
    """Starts a server that sends a status; returns its port and list of requests."""
    running = []

    def start(status):
        requests = []

        class Handler(BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"

            def do_POST(self):
                body = self.rfile.read(int(self.headers["Content-Length"]))
                requests.append((self.path, json.loads(body)["instances"]))
                self.send_response(status)
                self.send_header("Content-Length", "2")
                self.end_headers()
                self.wfile.write(b"{}")

            def log_message(self, *arguments):
                pass

        server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        threading.Thread(target=server.serve_forever, args=(0.01,), daemon=True).start()
        running.append(server)
        return server.server_port, requests

    yield start
    for server in running:
        server.shutdown()
        server.server_close()


def test_each_client_sends_one_row_at_a_time_and_begins_with_a_different_one(serve):
    port, requests = serve(200)
    figures = server_peer.measure(port, PATH, ROWS, ["a", "b"], 3, 0.2)
    assert {path for path, _ in requests} == {PATH}
    assert all(len(instances) == 1 for _, instances in requests)
    # The order of the clients varies.
    firsts = [instances[0]["a"] for _, instances in requests]
    assert {"first 0", "first 4", "first 8"} <= set(firsts)
    assert figures["rows/s"] > 0
    assert figures["p50 ms"] <= figures["p99 ms"]


def test_server_that_refuses_is_an_error(serve):
    port, _ = serve(503)
    with pytest.raises(RuntimeError, match="status 503"):
        server_peer.measure(port, PATH, ROWS, ["a", "b"], 2, 0.2)


def test_rows_of_a_directory_are_in_the_order_of_the_models_columns(tmp_path):
    source = str(tiny.write_tables(tmp_path / "data"))
    rows = serving_load.read_rows(source, ["sentence2", "sentence1"])
    _, first, second = tiny.pairs(48, seed=1)[0]
    assert rows[0] == [second, first]
    with pytest.raises(click.UsageError, match="no column question"):
        serving_load.read_rows(source, ["question"])


def test_ratios_are_to_the_bare_model_with_one_row_in_the_same_round():
    def figures(speed, *keys):
        return {
            f"{name} at {key}": value
            for key in keys
            for name, value in (
                ("rows/s", speed),
                ("p50 ms", 1000 / speed),
                ("p99 ms", 2000 / speed),
            )
        }

    results = {
        serving_load.BARE: [figures(40, 1, 64), figures(20, 1, 64)],
        **{
            name: [figures(80, 1, 8), figures(40, 1, 8)]
            for name in serving_load.SERVERS
        },
    }
    lines = serving_load.table(results, [1, 8]).splitlines()[2:]
    assert len(lines) == 2 + 2 * 2
    assert lines[0].endswith("| 1.00 | 1.00 | 1.00 |")
    assert lines[-1].startswith("| server, no batching | 8 | 60.0 (40.0 to 80.0) |")
    assert lines[-1].endswith("| 2.00 | 0.50 | 0.50 |")
