"""The load of a server: clients, refusals and the table."""

import json
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import pytest

from benchmarks import serving_load
from benchmarks.peers import server as server_peer
from pipeline.config.errors import UsageError
from tests import tiny

ROWS = [[f"first {index}", f"second {index}"] for index in range(12)]


@pytest.fixture
def answering():
    """A server of a given status, and the requests that it saw."""
    running = []

    def start(status):
        seen = []

        class Handler(BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"

            def do_POST(self):
                body = self.rfile.read(int(self.headers["Content-Length"]))
                seen.append((self.path, json.loads(body)["instances"]))
                self.send_response(status)
                self.send_header("Content-Length", "2")
                self.end_headers()
                self.wfile.write(b"{}")

            def log_message(self, *arguments):
                pass

        server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        threading.Thread(target=server.serve_forever, daemon=True).start()
        running.append(server)
        return server.server_port, seen

    yield start
    for server in running:
        server.shutdown()
        server.server_close()


def test_each_client_sends_a_row_at_a_time_and_begins_elsewhere(answering):
    port, seen = answering(200)
    found = server_peer.measure(port, "/v1/models/m:predict", ROWS, ["a", "b"], 3, 0.2)
    assert {path for path, _ in seen} == {"/v1/models/m:predict"}
    assert all(len(instances) == 1 for _, instances in seen)
    # Which client is first, the threads settle.
    firsts = [instances[0]["a"] for _, instances in seen]
    assert {"first 0", "first 4", "first 8"} <= set(firsts)
    assert found["rows/s"] > 0
    assert found["p50 ms"] <= found["p99 ms"]


@pytest.mark.filterwarnings("ignore::pytest.PytestUnhandledThreadExceptionWarning")
def test_server_that_refuses_is_no_figure(answering):
    port, _ = answering(503)
    with pytest.raises(RuntimeError, match="of 2 clients, 2 "):
        server_peer.measure(port, "/v1/models/m:predict", ROWS, ["a", "b"], 2, 0.2)


def test_made_up_rows_are_the_same_for_a_seed():
    rows = serving_load.make_rows(columns=2)
    assert rows == serving_load.make_rows(columns=2)
    assert rows != serving_load.make_rows(columns=2, seed=1)
    assert all(5 <= len(text.split()) <= 40 for row in rows for text in row)


def test_rows_of_a_directory_are_in_the_order_of_the_models_columns(tmp_path):
    source = str(tiny.write_tables(tmp_path / "data"))
    rows = serving_load.read_rows(source, ["sentence2", "sentence1"])
    _, first, second = tiny.pairs(48, seed=1)[0]
    assert rows[0] == [second, first]
    with pytest.raises(UsageError, match="no column question"):
        serving_load.read_rows(source, ["question"])


def test_ratios_are_to_the_bare_model_a_row_at_a_time_in_the_same_round():
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
